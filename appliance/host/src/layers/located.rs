//! Where in a file a value stands.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

use super::file;

/// What a layer is called, and where in it its values stand.
#[derive(Clone, Debug)]
pub(super) struct Places {
    name: String,
    // Line and column by path; empty where there are no lines.
    at: BTreeMap<String, (u64, u64)>,
}

impl Places {
    /// The places of a file.
    pub(super) fn of_file(name: String, text: &str) -> Self {
        let mut at = BTreeMap::new();
        if let Ok(tree) =
            serde_saphyr::from_str_with_options::<Spanned<Node>>(text, file::options())
        {
            collect(&tree, "", &mut at);
        }
        Self { name, at }
    }

    /// A layer without lines: a variable, a flag.
    pub(super) const fn of_name(name: String) -> Self {
        Self {
            name,
            at: BTreeMap::new(),
        }
    }

    /// `name:line:column` of a path, or the name alone.
    pub(super) fn of(&self, path: &str) -> String {
        match self.at.get(path) {
            Some((line, column)) => format!("{}:{line}:{column}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Joins a path and a key.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn collect(node: &Spanned<Node>, path: &str, at: &mut BTreeMap<String, (u64, u64)>) {
    let place = (node.referenced.line(), node.referenced.column());
    if place.0 > 0 {
        at.insert(path.to_owned(), place);
    }
    match &node.value {
        Node::Leaf => {}
        Node::Map(entries) => {
            for (key, child) in entries {
                collect(child, &join(path, key), at);
            }
        }
        Node::List(items) => {
            for (index, child) in items.iter().enumerate() {
                collect(child, &join(path, &index.to_string()), at);
            }
        }
    }
}

/// Any YAML, for its places only.
enum Node {
    Leaf,
    Map(Vec<(String, Spanned<Self>)>),
    List(Vec<Spanned<Self>>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_bytes<E: de::Error>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_enum<A: de::EnumAccess<'de>>(self, data: A) -> Result<Node, A::Error> {
        let (_, variant) = data.variant::<IgnoredAny>()?;
        de::VariantAccess::newtype_variant::<IgnoredAny>(variant)?;
        Ok(Node::Leaf)
    }
}
