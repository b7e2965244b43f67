//! Whose an Ingress is.

use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

use crate::{
    names::{CONTROLLER, DEFAULT_CLASS, INGRESS_CLASS},
    plan::owner::Owner,
    snapshot::Ingresses,
};

/// Whose an Ingress is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Ours.
    Ours,
    /// It would be, but its class has parameters, and ours takes none.
    Parameters,
    /// Not ours.
    Foreign,
}

/// Whose an Ingress is. The deprecated annotation goes before the field, as the field's documentation
/// says; without either the cluster's default class is meant.
#[must_use]
pub fn claim(ingresses: &Ingresses, ingress: &Ingress) -> Claim {
    let annotations = ingress.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(INGRESS_CLASS));
    let spec = ingress.spec.as_ref();
    let field = spec.and_then(|spec| spec.ingress_class_name.as_ref());
    let class = match annotated.or(field) {
        Some(name) => match ingresses.classes.get(name) {
            Some(class) => Some(class),
            // A class that is gone takes nothing away: whoever means it deletes the Ingress.
            None if Owner::from(ingress).is_guarded() => return Claim::Ours,
            None => None,
        },
        None => default(ingresses),
    };
    match class {
        Some(class) if is_ours(class) => match &class.spec {
            Some(spec) if spec.parameters.is_some() => Claim::Parameters,
            _ => Claim::Ours,
        },
        _ => Claim::Foreign,
    }
}

/// The class of Ingresses without one: of several the newest, as an API server takes it.
fn default(ingresses: &Ingresses) -> Option<&IngressClass> {
    let is_default = |class: &&IngressClass| {
        let annotations = class.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get(DEFAULT_CLASS))
            .map(String::as_str)
            == Some("true")
    };
    let all = ingresses.classes.values().filter(is_default);
    let mut all: Vec<&IngressClass> = all.collect();
    let since = |class: &IngressClass| class.metadata.creation_timestamp.as_ref().map(|it| it.0);
    // Of one age the first by name.
    all.sort_by_key(|class| std::cmp::Reverse(since(class)));
    all.first().copied()
}

fn is_ours(class: &IngressClass) -> bool {
    let spec = class.spec.as_ref();
    spec.and_then(|spec| spec.controller.as_deref()) == Some(CONTROLLER)
}
