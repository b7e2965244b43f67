//! The items of a list, out of its JSON as it arrives: a list of a large fleet is never here whole.

use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Error, Map, Value};

/// Reads the items of a list.
#[derive(Debug)]
pub struct Items<T> {
    /// What came and is not read.
    rest: Vec<u8>,
    place: Place,
    /// What the list says beside its items, as `metadata`.
    head: Map<String, Value>,
    items: PhantomData<fn() -> T>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Start,
    /// A member of the list, or its end.
    Member,
    Colon(String),
    Value(String),
    /// An item, or the end of the items.
    Item,
    End,
}

/// A value was read, or more of it must come.
type Whole<V> = Option<(V, usize)>;

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self {
            rest: Vec::new(),
            place: Place::Start,
            head: Map::new(),
            items: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> Items<T> {
    /// Takes more of the list.
    pub fn push(&mut self, more: &[u8]) {
        self.rest.extend_from_slice(more);
    }

    /// Gives the items that are whole by now. What is cut by the end is read again with what comes.
    ///
    /// # Errors
    ///
    /// It is no list, or an item is none of these.
    pub fn read(&mut self) -> Result<Vec<T>, Error> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(read) = self.step(at, &mut found)? {
            at += read;
        }
        self.rest.drain(..at);
        Ok(found)
    }

    /// What the list said beside its items.
    ///
    /// # Errors
    ///
    /// The list is not whole.
    pub fn finish(self) -> Result<Map<String, Value>, Error> {
        if self.place == Place::End {
            Ok(self.head)
        } else {
            Err(Error::custom("the list was cut off"))
        }
    }

    /// Reads one thing; says how many bytes it took, or nothing if more must come.
    fn step(&mut self, at: usize, found: &mut Vec<T>) -> Result<Option<usize>, Error> {
        let rest = self.rest.get(at..).unwrap_or_default();
        let Some(&next) = rest.first() else {
            return Ok(None);
        };
        if next.is_ascii_whitespace() {
            return Ok(Some(1));
        }
        let (place, read) = match (&self.place, next) {
            (Place::Start, b'{') | (Place::Member, b',') => (Place::Member, 1),
            (Place::Member, b'}') => (Place::End, 1),
            (Place::Member, b'"') => match value(rest)? {
                Some((name, read)) => (Place::Colon(name), read),
                None => return Ok(None),
            },
            (Place::Colon(name), b':') => (Place::Value(name.clone()), 1),
            (Place::Value(name), b'[') if name == "items" => (Place::Item, 1),
            (Place::Value(name), _) => match value(rest)? {
                Some((value, read)) => {
                    self.head.insert(name.clone(), value);
                    (Place::Member, read)
                }
                None => return Ok(None),
            },
            (Place::Item, b',') => (Place::Item, 1),
            (Place::Item, b']') => (Place::Member, 1),
            (Place::Item, _) => match value(rest)? {
                Some((item, read)) => {
                    found.push(item);
                    (Place::Item, read)
                }
                None => return Ok(None),
            },
            _ => return Err(Error::custom("this is no list of objects")),
        };
        self.place = place;
        Ok(Some(read))
    }
}

/// The value at the beginning of these bytes. That a number ends, only what follows tells.
fn value<V: DeserializeOwned>(bytes: &[u8]) -> Result<Whole<V>, Error> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<V>();
    let read = match values.next() {
        Some(Ok(value)) => Some((value, values.byte_offset())),
        Some(Err(error)) if !error.is_eof() => return Err(error),
        _ => None,
    };
    Ok(read.filter(|(_, read)| *read < bytes.len() || closes(bytes)))
}

fn closes(bytes: &[u8]) -> bool {
    bytes
        .last()
        .is_some_and(|last| [b'}', b']', b'"'].contains(last))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    type Read = (Vec<Value>, Map<String, Value>);

    fn read_in(text: &str, step: usize) -> Result<Read, Error> {
        let mut items = Items::default();
        let mut found = Vec::new();
        for part in text.as_bytes().chunks(step.max(1)) {
            items.push(part);
            found.extend(items.read()?);
        }
        Ok((found, items.finish()?))
    }

    #[test]
    fn a_list_is_read_wherever_it_is_cut() {
        let list = json!({"apiVersion": "v1", "kind": "XList", "more": -12.5e3, "no": null,
            "items": [{"a": "]}\",\\\" é"}, {}, {"b": [1, {"items": [2]}]}],
            "metadata": {"resourceVersion": "7"}});
        let head = json!({"apiVersion": "v1", "kind": "XList", "more": -12.5e3, "no": null,
            "metadata": {"resourceVersion": "7"}});
        for text in [
            list.to_string(),
            serde_json::to_string_pretty(&list).unwrap(),
        ] {
            for step in 1..=text.len() {
                let (items, rest) = read_in(&text, step).unwrap();
                assert_eq!(json!(items), list["items"], "cut every {step} bytes");
                assert_eq!(json!(rest), head);
            }
        }
    }

    #[test]
    fn a_list_without_items_is_empty() {
        for list in [
            r#"{"items":[],"metadata":{}}"#,
            r#"{"items":null,"metadata":{}}"#,
        ] {
            assert_eq!(read_in(list, 1).unwrap().0, Vec::<Value>::new(), "{list}");
        }
    }

    #[test]
    fn what_is_cut_off_or_no_list_is_refused() {
        let whole = r#"{"items":[{"a":1}],"metadata":{}}"#;
        for end in 0..whole.len() {
            assert!(read_in(&whole[..end], 5).is_err(), "{}", &whole[..end]);
        }
        for text in [
            "[]",
            "7",
            "{\"items\" 7}",
            "{7:8}",
            "{}}",
            "{\"items\":[{\"a\":}]}",
        ] {
            assert!(read_in(text, 3).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..60), step in 1..9_usize) {
            let mut items = Items::<Value>::default();
            let all = bytes.chunks(step).try_for_each(|part| {
                items.push(part);
                items.read().map(drop)
            });
            // Whatever it says: it says it.
            let _ = all.and_then(|()| items.finish().map(drop));
        }
    }
}
