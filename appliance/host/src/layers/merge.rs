//! Putting the layers on top of each other.

use figment::{
    Figment, Metadata, Profile, Provider,
    error::Error,
    value::{Dict, Map, Value},
};
use kedge_core::{Code, Fix, Problem};

use super::{Origins, RoleFile, file::told, located::Places};

/// One layer: its values, and where they stand.
pub(super) struct Layer {
    pub(super) value: Value,
    pub(super) places: Places,
}

/// Merges layers, lowest first: maps by key, everything else replaces.
pub(super) fn merge<F: RoleFile>(layers: Vec<Layer>) -> Result<(F, Origins), Box<Problem>> {
    let mut figment = Figment::new();
    let mut places = Vec::with_capacity(layers.len());
    for (index, layer) in layers.into_iter().enumerate() {
        figment = figment.merge(Numbered {
            index,
            value: layer.value,
        });
        places.push(layer.places);
    }
    let origins = Origins::of(&figment, &places);
    let file = figment
        .extract::<F>()
        .map_err(|error| contradiction(&error, &origins))?;
    Ok((file, origins))
}

/// A layer as figment takes it; its number is its name, so that a value leads back to it.
struct Numbered {
    index: usize,
    value: Value,
}

impl Provider for Numbered {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.index.to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let dict = without_nulls(self.value.clone())
            .into_dict()
            .unwrap_or_default();
        Ok(Profile::Default.collect(dict))
    }
}

/// A null says nothing; it must not hide what a lower layer says.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Dict(tag, dict) => {
            let kept = dict
                .into_iter()
                .filter(|(_, value)| !matches!(value, Value::Empty(..)))
                .map(|(key, value)| (key, without_nulls(value)))
                .collect();
            Value::Dict(tag, kept)
        }
        other => other,
    }
}

/// Layers that are right alone and wrong together.
fn contradiction(error: &Error, origins: &Origins) -> Box<Problem> {
    let key = error.path.join(".");
    let mut problem = told(
        Code::ConfigRule,
        format!("`{key}` does not fit together: {}", error.kind),
        &key,
    );
    for origin in origins.below(&key) {
        problem = problem.evidence(origin);
    }
    let fix = Fix::text("let one layer alone set this key").command("kedge config view --origins");
    Box::new(problem.fix(fix))
}
