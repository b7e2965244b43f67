//! `auto`, or a value.

use std::{fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{
        self, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

/// The word `auto`, or a value.
///
/// An untagged enum would answer every mistake with "did not match any variant"; this one passes
/// on what `T` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Auto<T> {
    /// Kedge chooses.
    #[default]
    Auto,
    /// Somebody chose.
    Value(T),
}

impl<T> Auto<T> {
    /// The value somebody chose.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<T: Serialize> Serialize for Auto<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(WORD),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Auto<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AutoVisitor(PhantomData))
    }
}

struct AutoVisitor<T>(PhantomData<T>);

macro_rules! pass_on {
    ($($method:ident($type:ty)),* $(,)?) => {
        $(fn $method<E: de::Error>(self, value: $type) -> Result<Auto<T>, E> {
            T::deserialize(de::IntoDeserializer::into_deserializer(value)).map_err(or_auto).map(Auto::Value)
        })*
    };
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AutoVisitor<T> {
    type Value = Auto<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`auto` or a value")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Auto<T>, E> {
        if text == WORD {
            return Ok(Auto::Auto);
        }
        T::deserialize(de::value::StrDeserializer::new(text))
            .map_err(or_auto)
            .map(Auto::Value)
    }

    pass_on!(
        visit_bool(bool),
        visit_i64(i64),
        visit_i128(i128),
        visit_u64(u64),
        visit_u128(u128),
        visit_f64(f64),
    );

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Auto<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Auto::Value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Auto<T>, A::Error> {
        T::deserialize(SeqAccessDeserializer::new(seq)).map(Auto::Value)
    }
}

/// Reminds of the word where a scalar is wrong.
fn or_auto<E: de::Error>(error: E) -> E {
    E::custom(format!("{error}; `auto` is allowed, too"))
}

impl<T: JsonSchema> JsonSchema for Auto<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Auto_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "const": WORD }, value] })
    }
}

const WORD: &str = "auto";

#[cfg(test)]
mod tests {
    use kedge_core::{Span, vip::Vrid};

    use super::*;

    fn read<T: de::DeserializeOwned>(text: &str) -> Result<Auto<T>, String> {
        serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
    }

    #[test]
    fn the_word_and_every_kind_of_value_are_read() {
        assert_eq!(read::<Vrid>("auto"), Ok(Auto::Auto));
        assert_eq!(read::<Vrid>("51"), Ok(Auto::Value(Vrid::new(51).unwrap())));
        assert_eq!(
            read::<Span>("100ms"),
            Ok(Auto::Value(Span::from_millis(100)))
        );
        assert_eq!(read::<Vec<u8>>("[1, 2]"), Ok(Auto::Value(vec![1, 2])));
    }

    #[test]
    fn a_wrong_value_says_what_the_type_says_and_where() {
        let error = read::<Vrid>("256").unwrap_err();
        assert!(error.contains("vrid must be 1 to 255, not 256"), "{error}");
        assert!(error.contains("`auto`"), "{error}");
        let error = read::<Vrid>("atuo").unwrap_err();
        assert!(error.contains("`auto`"), "{error}");
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        let written = serde_json::to_string(&[Auto::Auto, Auto::Value(51)]).unwrap();
        assert_eq!(written, r#"["auto",51]"#);
    }
}
