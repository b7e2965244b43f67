//! Which autonomous system a neighbour is of, as a configuration says it.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Asn;

/// The autonomous system of a neighbour: a number, or only whether it is ours, as with `remote-as external`
/// of FRR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerAs {
    /// That one.
    Number(Asn),
    /// Any but ours.
    External,
    /// Ours.
    Internal,
}

impl PeerAs {
    /// Whether it is the same one as `ours`.
    #[must_use]
    pub fn is_internal(self, ours: Asn) -> bool {
        match self {
            Self::Number(asn) => asn == ours,
            Self::External => false,
            Self::Internal => true,
        }
    }

    /// Whether a neighbour that is of `asn` may be the one that is meant, where we are of `ours`.
    #[must_use]
    pub fn holds(self, asn: Asn, ours: Asn) -> bool {
        match self {
            Self::Number(meant) => asn == meant,
            Self::External => asn != ours,
            Self::Internal => asn == ours,
        }
    }

    /// The number, where it follows from what was said.
    #[must_use]
    pub const fn number(self, ours: Asn) -> Option<Asn> {
        match self {
            Self::Number(asn) => Some(asn),
            Self::External => None,
            Self::Internal => Some(ours),
        }
    }
}

impl From<Asn> for PeerAs {
    fn from(asn: Asn) -> Self {
        Self::Number(asn)
    }
}

impl fmt::Display for PeerAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(asn) => asn.fmt(f),
            Self::External => f.write_str(EXTERNAL),
            Self::Internal => f.write_str(INTERNAL),
        }
    }
}

impl Serialize for PeerAs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(asn) => asn.serialize(serializer),
            Self::External | Self::Internal => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for PeerAs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl de::Visitor<'_> for Reader {
    type Value = PeerAs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of 1 to 4294967295, `external` or `internal`")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<PeerAs, E> {
        Asn::try_from(number).map(PeerAs::Number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<PeerAs, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<PeerAs, E> {
        match word {
            EXTERNAL => Ok(PeerAs::External),
            INTERNAL => Ok(PeerAs::Internal),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }
}

impl JsonSchema for PeerAs {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PeerAs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "type": "integer", "minimum": 1, "maximum": u32::MAX },
                { "type": "string", "enum": [EXTERNAL, INTERNAL] },
            ]
        })
    }
}

const EXTERNAL: &str = "external";
const INTERNAL: &str = "internal";

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer as _, value::Error};

    use super::*;

    #[test]
    fn a_number_and_two_words_are_read_and_nothing_else() {
        let ours = Asn::new(65_001).unwrap();
        let other = Asn::new(65_000).unwrap();
        let number = |number: i64| {
            let read: Result<PeerAs, Error> = PeerAs::deserialize(number.into_deserializer());
            read
        };
        let word = |word: &'static str| {
            let read: Result<PeerAs, Error> = PeerAs::deserialize(word.into_deserializer());
            read
        };
        for (asn, internal, holds) in [
            (number(65_000), false, [false, true]),
            (number(65_001), true, [true, false]),
            (word("external"), false, [false, true]),
            (word("internal"), true, [true, false]),
        ] {
            let asn = asn.unwrap();
            assert_eq!(asn.is_internal(ours), internal, "{asn}");
            let held = [ours, other].map(|it| asn.holds(it, ours));
            assert_eq!(held, holds, "{asn}");
            let known = asn.number(ours).map(|it| it.to_string());
            assert_eq!(known.is_some(), asn != PeerAs::External);
        }
        for wrong in [0, -1, 4_294_967_296] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
        for wrong in ["65000", "Extern", ""] {
            let said = word(wrong).unwrap_err().to_string();
            assert!(said.contains("`external` or `internal`"), "{said}");
        }
    }
}
