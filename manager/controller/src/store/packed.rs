//! An object's layers in little memory.
//!
//! Trees of JSON are convenient and large: a map of one member takes more than half a kibibyte. So
//! objects lie packed, as bytes, and are unpacked where somebody looks. Words that every object
//! repeats (names of fields, kinds, reasons) stand in one dictionary for all.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};

use super::{Layers, Server, UserDocument};

/// An object's layers, packed.
#[derive(Debug, PartialEq, Eq)]
pub struct Packed {
    bytes: Box<[u8]>,
    /// Its uid; empty on a directory.
    pub uid: Box<str>,
    /// The version that was read; empty on a directory.
    pub version: Box<str>,
}

impl Packed {
    /// Packs an object.
    #[must_use]
    pub fn new(layers: &Layers) -> Self {
        let mut out = Writer::default();
        let Layers {
            user,
            owned,
            status,
            marks,
            server,
        } = layers;
        out.optional(user.as_ref(), |out, user| {
            out.value(&user.value, false);
            out.text(&user.origin);
        });
        out.number(owned.len() as u64);
        for (manager, content) in owned {
            out.word(manager);
            out.value(content, false);
        }
        for layer in [status, marks] {
            out.optional(layer.as_ref(), |out, layer| out.value(layer, false));
        }
        out.optional(server.as_ref(), |out, server| {
            out.value(&from(server), false);
        });
        let (uid, version) = server.as_ref().map_or(("", ""), |server| {
            (server.uid.as_str(), server.resource_version.as_str())
        });
        Self {
            bytes: out.bytes.into(),
            uid: uid.into(),
            version: version.into(),
        }
    }

    /// How many bytes it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len() + self.uid.len() + self.version.len()
    }

    /// The object.
    #[must_use]
    pub fn open(&self) -> Layers {
        self.read().unwrap_or_default()
    }

    fn read(&self) -> Option<Layers> {
        let mut input = Reader::new(&self.bytes);
        let user = match input.byte()? {
            0 => None,
            _ => Some(UserDocument {
                value: input.value()?,
                origin: input.text()?,
            }),
        };
        let mut owned = BTreeMap::new();
        for _ in 0..input.number()? {
            let manager = input.word()?;
            owned.insert(manager, input.value()?);
        }
        let mut layer = || match input.byte()? {
            0 => Some(None),
            _ => Some(Some(input.value()?)),
        };
        let (status, marks, server) = (layer()?, layer()?, layer()?);
        let server: Option<Server> =
            server
                .map(to)
                .unwrap_or_default()
                .map(|server: Server| Server {
                    uid: self.uid.to_string(),
                    resource_version: self.version.to_string(),
                    ..server
                });
        Some(Layers {
            user,
            owned,
            status,
            marks,
            server,
        })
    }
}

/// Something else than an object, packed by the same means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedValue(Box<[u8]>);

impl PackedValue {
    /// Packs it.
    pub fn new(what: &impl Serialize) -> Self {
        let mut out = Writer::default();
        out.value(&from(what), false);
        Self(out.bytes.into())
    }

    /// It, as it was.
    #[must_use]
    pub fn open<T: DeserializeOwned>(&self) -> Option<T> {
        to(Reader::new(&self.0).value()?)
    }
}

fn from(what: &impl Serialize) -> Value {
    serde_json::to_value(what).unwrap_or(Value::Null)
}

fn to<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

/// The words of all objects. It only grows, and not beyond [`MOST`].
#[derive(Debug, Default)]
struct Words {
    numbers: HashMap<Arc<str>, u32>,
    all: Vec<Arc<str>>,
}

static WORDS: LazyLock<RwLock<Words>> = LazyLock::new(RwLock::default);

impl Words {
    /// The word's number. Once the dictionary is full what is not in it never will be: the same
    /// text is packed the same way for good.
    fn number(word: &str) -> Option<u32> {
        if word.len() > LONGEST {
            return None;
        }
        let words = WORDS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = words.numbers.get(word) {
            return Some(*number);
        }
        drop(words);
        let mut words = WORDS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = words.numbers.get(word) {
            return Some(*number);
        }
        if words.all.len() >= MOST {
            return None;
        }
        let number = u32::try_from(words.all.len()).ok()?;
        let word: Arc<str> = word.into();
        words.all.push(Arc::clone(&word));
        words.numbers.insert(word, number);
        Some(number)
    }

    fn word(&self, number: u64) -> Option<String> {
        let word = self.all.get(usize::try_from(number).ok()?)?;
        Some(word.to_string())
    }
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn optional<T>(&mut self, what: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.bytes.push(u8::from(what.is_some()));
        if let Some(what) = what {
            write(self, what);
        }
    }

    fn number(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                self.bytes.push(low & 0x7f);
                return;
            }
            self.bytes.push(low | 0x80);
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A word by its number, or as it is: 0 before a text, one more than its number before a word.
    fn word(&mut self, word: &str) {
        match Words::number(word) {
            Some(number) => self.number(u64::from(number) + 1),
            None => {
                self.number(0);
                self.text(word);
            }
        }
    }

    fn value(&mut self, value: &Value, is_word: bool) {
        match value {
            Value::Null => self.bytes.push(NULL),
            Value::Bool(false) => self.bytes.push(FALSE),
            Value::Bool(true) => self.bytes.push(TRUE),
            Value::Number(number) => self.any_number(number),
            Value::String(text) if is_word => {
                self.bytes.push(WORD);
                self.word(text);
            }
            Value::String(text) => {
                self.bytes.push(TEXT);
                self.text(text);
            }
            Value::Array(items) => {
                self.bytes.push(LIST);
                self.number(items.len() as u64);
                for item in items {
                    self.value(item, is_word);
                }
            }
            Value::Object(members) => {
                self.bytes.push(MAP);
                self.number(members.len() as u64);
                for (name, member) in members {
                    self.word(name);
                    self.value(member, REPEATED.contains(&name.as_str()));
                }
            }
        }
    }

    fn any_number(&mut self, number: &Number) {
        if let Some(number) = number.as_u64() {
            self.bytes.push(WHOLE);
            self.number(number);
        } else if let Some(number) = number.as_i64() {
            self.bytes.push(NEGATIVE);
            self.number(number.unsigned_abs());
        } else {
            self.bytes.push(FLOAT);
            let float = number.as_f64().unwrap_or_default();
            self.bytes.extend_from_slice(&float.to_le_bytes());
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    /// Held while one object is read, and not taken for each word of it.
    words: RwLockReadGuard<'static, Words>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            words: WORDS.read().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        Some(text.to_owned())
    }

    fn word(&mut self) -> Option<String> {
        match self.number()? {
            0 => self.text(),
            number => self.words.word(number - 1),
        }
    }

    fn value(&mut self) -> Option<Value> {
        Some(match self.byte()? {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            WHOLE => Value::from(self.number()?),
            NEGATIVE => Value::from(0_i64.checked_sub_unsigned(self.number()?)?),
            FLOAT => Value::from(f64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            WORD => Value::String(self.word()?),
            TEXT => Value::String(self.text()?),
            LIST => {
                let count = self.number()?;
                let items: Option<Vec<Value>> = (0..count).map(|_| self.value()).collect();
                Value::Array(items?)
            }
            MAP => {
                let mut members = Map::new();
                for _ in 0..self.number()? {
                    let name = self.word()?;
                    members.insert(name, self.value()?);
                }
                Value::Object(members)
            }
            _ => return None,
        })
    }
}

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const WHOLE: u8 = 3;
const NEGATIVE: u8 = 4;
const FLOAT: u8 = 5;
const TEXT: u8 = 6;
const WORD: u8 = 7;
const LIST: u8 = 8;
const MAP: u8 = 9;

/// The most words there are: labels and annotations are fields too, and anybody's to name.
const MOST: usize = 8192;
const LONGEST: usize = 128;

/// The fields whose texts are the same in many objects.
const REPEATED: [&str; 24] = [
    "apiVersion",
    "apiGroup",
    "kind",
    "namespace",
    "type",
    "status",
    "reason",
    "message",
    "mode",
    "state",
    "tenant",
    "interface",
    "family",
    "version",
    "because",
    "clusterName",
    "gateway",
    "access",
    "finalizers",
    "lb",
    "deletionPolicy",
    "api_version",
    "endpoint_owners",
    "phase",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9_f64..1e9).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            let name = prop_oneof![Just("kind".to_owned()), Just("reason".to_owned()), ".{0,8}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out_as_it_was(user in values(), owned in values(), deleted in any::<bool>()) {
            let layers = Layers {
                user: Some(UserDocument { value: user, origin: "a.yaml:1".to_owned() }),
                owned: BTreeMap::from([("kedge-endpoint".to_owned(), owned.clone())]),
                status: deleted.then(|| owned.clone()),
                marks: (!deleted).then_some(owned),
                server: Some(Server {
                    uid: "u".to_owned(),
                    resource_version: "7".to_owned(),
                    generation: Some(3),
                    deletion_timestamp: deleted.then(|| "2026-01-01T00:00:00Z".to_owned()),
                    vanished: deleted,
                    ..Server::default()
                }),
            };
            let packed = Packed::new(&layers);
            prop_assert_eq!(packed.open(), layers.clone());
            prop_assert_eq!(&packed, &Packed::new(&layers), "the same is packed the same way");
        }
    }

    #[test]
    fn a_condition_takes_a_fraction_of_its_text() {
        let condition = |since: &str| {
            json!({"type": "AgentAlive", "status": "True", "reason": "Heard",
                "message": "the agent reports", "observedGeneration": 3, "lastTransitionTime": since})
        };
        let first = PackedValue::new(&condition("2026-01-01T00:00:00Z"));
        let second = PackedValue::new(&condition("2026-01-01T00:00:01Z"));
        assert_ne!(first, second);
        let text = condition("2026-01-01T00:00:01Z").to_string();
        assert!(second.0.len() * 3 < text.len(), "{}", second.0.len());
        assert_eq!(
            second.open::<Value>(),
            Some(condition("2026-01-01T00:00:01Z"))
        );
    }

    #[test]
    fn bytes_that_make_no_sense_are_nothing() {
        for bytes in [&[9, 1][..], &[6, 200], &[8, 255, 255], &[42]] {
            assert_eq!(Reader::new(bytes).value(), None);
        }
    }
}
