//! Who set what.

use std::collections::BTreeMap;

use figment::{Figment, value::Value};
use kedge_control::local::Origin;

use super::located::{Places, join};

/// Where each value of a merged configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    by_path: BTreeMap<String, String>,
}

impl Origins {
    /// Follows every value of the merged figment back to its layer.
    pub(super) fn of(figment: &Figment, places: &[Places]) -> Self {
        let mut origins = Self::default();
        if let Ok(value) = figment.find_value("") {
            origins.collect(figment, places, &value, "");
        }
        origins
    }

    fn collect(&mut self, figment: &Figment, places: &[Places], value: &Value, path: &str) {
        let layer = figment
            .get_metadata(value.tag())
            .and_then(|metadata| metadata.name.parse::<usize>().ok())
            .and_then(|index| places.get(index));
        if let Some(layer) = layer {
            self.by_path.insert(path.to_owned(), layer.of(path));
        }
        match value {
            Value::Dict(_, dict) => {
                for (key, child) in dict {
                    self.collect(figment, places, child, &join(path, key));
                }
            }
            Value::Array(_, items) => {
                for (index, child) in items.iter().enumerate() {
                    self.collect(figment, places, child, &join(path, &index.to_string()));
                }
            }
            _ => {}
        }
    }

    /// Where a key comes from: `file:line:column`, `environment KEDGE_SET_…` or `flag …`; `None`
    /// where nobody set it. Items of lists are addressed by number: `vips.api.addresses.0`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.by_path.get(key).map(String::as_str)
    }

    /// Where a key comes from or, where nobody set it, what it would stand below: what is missing
    /// is missing there.
    #[must_use]
    pub fn nearest(&self, key: &str) -> Option<&str> {
        let mut key = key;
        while !key.is_empty() {
            if let Some(place) = self.get(key) {
                return Some(place);
            }
            key = key.rsplit_once('.').map_or("", |(above, _)| above);
        }
        None
    }

    /// As [`Origins::get`], with the words `default` where nobody set it.
    #[must_use]
    pub fn of_key(&self, key: &str) -> &str {
        self.get(key).unwrap_or(DEFAULT)
    }

    /// `key (origin)` of a key and everything below it.
    pub(super) fn below<'a>(&'a self, key: &'a str) -> impl Iterator<Item = String> + 'a {
        self.by_path
            .iter()
            .filter(move |(path, _)| {
                path.strip_prefix(key)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            .map(|(path, origin)| format!("{path} ({origin})"))
    }

    /// Every scalar and list of `values`, with its origin.
    pub(super) fn of_every_leaf(&self, values: &serde_json::Value) -> Vec<Origin> {
        let mut leaves = Vec::new();
        self.leaves(values, "", &mut leaves);
        leaves
    }

    fn leaves(&self, value: &serde_json::Value, path: &str, leaves: &mut Vec<Origin>) {
        match value {
            serde_json::Value::Object(entries) if !entries.is_empty() || path.is_empty() => {
                for (key, child) in entries {
                    self.leaves(child, &join(path, key), leaves);
                }
            }
            leaf => leaves.push(Origin {
                key: path.to_owned(),
                value: leaf.clone(),
                origin: self.of_key(path).to_owned(),
            }),
        }
    }
}

const DEFAULT: &str = "default";
