//! Single values from the environment and from flags.

use figment::{
    error::{Error, Kind},
    value::{Dict, Value},
};
use kedge_core::{Code, Fix, Problem};

use super::{RoleFile, file, located::Places, merge::Layer, suggest};

/// What the names of our variables start with. Kubernetes injects `KEDGE_*_SERVICE_HOST`, so it
/// is longer than the name of the product.
pub const ENV_PREFIX: &str = "KEDGE_SET_";

/// A value a flag sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    flag: String,
    key: String,
    value: String,
}

impl Override {
    /// A flag that sets one key, such as `--listen-port` and `tunnel.listen_port`.
    pub fn new(flag: &str, key: &str, value: impl ToString) -> Self {
        Self {
            flag: flag.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
        }
    }

    /// `--set KEY=VALUE`.
    ///
    /// # Errors
    ///
    /// There is no `=`, or nothing before it.
    pub fn set(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok(Self {
                flag: "--set".to_owned(),
                key: key.trim().to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write KEY=VALUE, such as vips.api.vrid=51".to_owned()),
        }
    }
}

/// One value and who set it.
pub(super) struct Setting {
    who: String,
    key: Vec<String>,
    text: String,
}

/// The settings in the order of their layers: variables by name, then flags as given.
pub(super) fn of(environment: &[(String, String)], overrides: &[Override]) -> Vec<Setting> {
    let mut variables: Vec<&(String, String)> = environment
        .iter()
        .filter(|(name, _)| name.starts_with(ENV_PREFIX))
        .collect();
    variables.sort();
    let variables = variables.into_iter().map(|(name, text)| Setting {
        who: format!("environment {name}"),
        key: name
            .trim_start_matches(ENV_PREFIX)
            .to_ascii_lowercase()
            .split("__")
            .map(str::to_owned)
            .collect(),
        text: text.clone(),
    });
    let flags = overrides.iter().map(|flag| Setting {
        who: format!("flag {}", flag.flag),
        key: flag.key.split('.').map(str::to_owned).collect(),
        text: flag.value.clone(),
    });
    variables.chain(flags).collect()
}

impl Setting {
    /// The setting as a layer of its own.
    pub(super) fn layer<F: RoleFile>(&self) -> Result<Layer, Box<Problem>> {
        let typed: Value = match self.text.trim().parse() {
            Ok(value) => value,
            Err(never) => match never {},
        };
        // `007` is a number unless the key wants a text: what does not fit as the one is tried as
        // the other.
        let file: F = F::deserialize(&self.nested(typed)).or_else(|error| {
            F::deserialize(&self.nested(Value::from(self.text.trim().to_owned())))
                .map_err(|_| Box::new(self.refused(&error)))
        })?;
        let value = Value::serialize(file)
            .map_err(|error| Box::new(Problem::new(Code::SysUnexpected, error.to_string())))?;
        Ok(Layer {
            value,
            places: Places::of_name(self.who.clone()),
        })
    }

    fn nested(&self, value: Value) -> Value {
        self.key.iter().rev().fold(value, |value, key| {
            Dict::from([(key.clone(), value)]).into()
        })
    }

    fn refused(&self, error: &Error) -> Problem {
        let key = self.key.join(".");
        let (what, fix) = match &error.kind {
            Kind::UnknownField(field, expected) => {
                let fix = match suggest::closest(field, expected.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("keys allowed here: {}", expected.join(", ")),
                };
                (format!("unknown key `{}`", field.escape_debug()), fix)
            }
            Kind::UnknownVariant(variant, expected) => {
                let fix = match suggest::closest(variant, expected.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("values allowed here: {}", expected.join(", ")),
                };
                (format!("unknown value `{}`", variant.escape_debug()), fix)
            }
            Kind::InvalidType(actual, expected) => {
                let found = actual.to_string();
                let found = found.replace("unsigned int", "number");
                let found = found.replace("signed int", "number");
                let what = format!("found {found} where {} belongs", file::words(expected));
                (what, "write a value the key allows".to_owned())
            }
            kind => (
                file::plain(&kind.to_string()),
                "write a value the key allows".to_owned(),
            ),
        };
        file::told(
            Code::ConfigEnvironment,
            format!("{}: {what}", self.who),
            &self.who,
        )
        .evidence(format!("it sets `{key}` to `{}`", self.text.escape_debug()))
        .fix(Fix::text(fix).command("kedge config schema"))
    }
}
