//! YAML of any form, with the line of each value.

use std::fmt;

use kedge_core::{Code, Problem};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{MessageFormatter as _, Options, Spanned};

use crate::migrate::source::refused;

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    /// Its line, from 1.
    pub(super) line: usize,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Nothing,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value under a key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.form {
            Form::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|it| &it.1),
            _ => None,
        }
    }

    /// The value under a path of keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// A scalar as it is written.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.form {
            Form::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> &[Self] {
        match &self.form {
            Form::List(items) => items,
            _ => &[],
        }
    }
}

/// The documents of a text.
///
/// # Errors
///
/// One of them is no YAML, or there are more than any manifest has.
pub(super) fn documents(name: &str, text: &str) -> Result<Vec<Node>, Problem> {
    let mut documents = Vec::new();
    let mut piece = String::new();
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            documents.extend(document(name, &piece)?);
            count += 1;
            if count > MOST_DOCUMENTS {
                let place = format!("{name}:{}", index + 1);
                let fix = "migrate the documents of kube-vip alone";
                let what = "more documents than any manifest has";
                return Err(refused(Code::ConfigTooLarge, &place, what, fix));
            }
            // Empty lines in front keep the numbers of the file.
            piece = "\n".repeat(index + 1);
        } else {
            piece.push_str(line);
            piece.push('\n');
        }
    }
    documents.extend(document(name, &piece)?);
    Ok(documents)
}

fn document(name: &str, text: &str) -> Result<Option<Node>, Problem> {
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_empty) {
        return Ok(None);
    }
    let read = serde_saphyr::from_str_with_options::<Spanned<Form>>(text, options());
    read.map(|read| Some(node(read))).map_err(|error| {
        let location = error.location().filter(|location| location.line() > 0);
        let place = location.map_or_else(
            || name.to_owned(),
            |at| format!("{name}:{}:{}", at.line(), at.column()),
        );
        let message = serde_saphyr::UserMessageFormatter.format_message(error.without_snippet());
        let code = match error {
            serde_saphyr::Error::Budget { .. } => Code::ConfigTooLarge,
            _ => Code::ConfigSyntax,
        };
        refused(code, &place, &message, "correct the YAML at this place")
    })
}

fn node(read: Spanned<Form>) -> Node {
    Node {
        line: usize::try_from(read.referenced.line()).unwrap_or(0),
        form: read.value,
    }
}

/// As the agent's own files: an anchor is refused at sight.
fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_nodes: 50_000,
            max_depth: 48,
            max_anchors: 0,
        },
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyForm)
    }
}

struct AnyForm;

impl<'de> Visitor<'de> for AnyForm {
    type Value = Form;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Form, E> {
        Ok(Form::Text(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Form, E> {
        Ok(Form::Text(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Form, E> {
        Ok(Form::Text(value.to_string()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Form, E> {
        Ok(Form::Text(value.to_string()))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Form, E> {
        Ok(Form::Text(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Form, E> {
        Ok(Form::Text(value.to_string()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Form, E> {
        Ok(Form::Text(value.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Form, E> {
        Ok(Form::Nothing)
    }

    fn visit_none<E: de::Error>(self) -> Result<Form, E> {
        Ok(Form::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Form, D::Error> {
        Form::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Form, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Form>>()? {
            items.push(node(item));
        }
        Ok(Form::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Form, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Spanned<Form>>()? {
            entries.push((key, node(value)));
        }
        Ok(Form::Map(entries))
    }
}

const MOST_DOCUMENTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_file() {
        let text = "# c\n---\na: 1\n---\n\nb:\n- x\n- y: true\n";
        let documents = documents("f", text).unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].get("a").unwrap().line, 3);
        let list = documents[1].get("b").unwrap().items();
        assert_eq!(list[1].line, 8);
        assert_eq!(list[1].get("y").unwrap().text(), Some("true"));
    }

    #[test]
    fn a_mistake_has_a_place() {
        let problem = documents("f", "a: 1\n---\nb: [\n").unwrap_err();
        assert!(problem.what.starts_with("f:"), "{}", problem.what);
        assert_eq!(problem.code, Code::ConfigSyntax);
        let bomb = documents("f", "a: &a [x]\nb: *a\n").unwrap_err();
        assert_eq!(bomb.code, Code::ConfigTooLarge);
        let many = documents("f", &"---\n".repeat(200)).unwrap_err();
        assert_eq!(many.code, Code::ConfigTooLarge);
    }
}
