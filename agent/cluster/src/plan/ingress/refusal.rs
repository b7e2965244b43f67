//! Why an Ingress is not offered.

use std::fmt;

use crate::{names, plan::trouble::Trouble};

/// Why nothing of an Ingress is offered: a wish that is not understood may be the one that closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its class has parameters.
    Parameters,
    /// An annotation that cannot be honoured.
    Annotation { key: String, why: &'static str },
    /// It has neither rules nor a default backend.
    NoRules,
    /// A path that other controllers take as an expression.
    Path { path: String },
    /// A way to compare paths that nobody knows.
    PathType { value: String },
    /// More of something than an HTTPLoadBalancer takes.
    TooMany {
        what: &'static str,
        count: usize,
        most: usize,
    },
    /// TLS cannot be passed through to it.
    Passthrough { why: &'static str },
    /// TLS cannot be passed through to its backend.
    PassthroughTo { trouble: Trouble },
    /// Plain requests are to be sent to HTTPS, and there is none.
    Redirect { trouble: Option<Trouble> },
}

impl Refusal {
    /// Its reason, as one word.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Parameters => "ParametersNotSupported",
            Self::Annotation { .. } => "AnnotationNotSupported",
            Self::NoRules => "NoRules",
            Self::Path { .. } => "PathNotSupported",
            Self::PathType { .. } => "UnknownValue",
            Self::TooMany { .. } => "TooMany",
            Self::Passthrough { .. } => "PassthroughNotPossible",
            Self::PassthroughTo { trouble } => trouble.reason(),
            Self::Redirect { trouble: None } => "RedirectWithoutTls",
            Self::Redirect {
                trouble: Some(trouble),
            } => trouble.reason(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameters => f.write_str("its IngressClass has parameters, and ours takes none"),
            Self::Annotation { key, why } => write!(f, "annotation {key}: {why}"),
            Self::NoRules => f.write_str("spec.rules is empty and there is no spec.defaultBackend"),
            Self::Path { path } => write!(
                f,
                "the path {path:?} is an expression to other controllers; here a path of type \
                 ImplementationSpecific is a prefix. Make it Prefix or Exact"
            ),
            Self::PathType { value } => write!(f, "pathType {value:?} is not known"),
            Self::TooMany { what, count, most } => {
                write!(f, "it has {count} {what}, and {most} are served; split it")
            }
            Self::Passthrough { why } => write!(f, "annotation {}: {why}", names::TLS_PASSTHROUGH),
            Self::PassthroughTo { trouble } => trouble.fmt(f),
            Self::Redirect { trouble } => {
                let key = names::HTTPS_REDIRECT;
                match trouble {
                    Some(trouble) => write!(f, "annotation {key}: {trouble}"),
                    None => write!(f, "annotation {key}: spec.tls names no Secret"),
                }
            }
        }
    }
}
