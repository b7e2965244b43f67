//! The envelope of everything people and programs read: `apiVersion` and `kind`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the command line's JSON and of the local sockets.
pub const CLI_VERSION: &str = "cli.kedge.dev/v1";

/// A type that is a document of its own.
pub trait Kind {
    /// The document's `kind`.
    const KIND: &'static str;
}

/// A body with its `apiVersion` and `kind` in front.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<T> {
    /// Always [`CLI_VERSION`].
    pub api_version: String,
    /// [`Kind::KIND`] of the body.
    pub kind: String,
    /// The body.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Kind> Document<T> {
    /// Wraps a body.
    pub fn new(body: T) -> Self {
        Self {
            api_version: CLI_VERSION.to_owned(),
            kind: T::KIND.to_owned(),
            body,
        }
    }
}

impl Kind for kedge_core::Problem {
    const KIND: &'static str = "Problem";
}

macro_rules! kinds {
    ($($body:ty => $kind:literal),* $(,)?) => {
        $(impl $crate::document::Kind for $body { const KIND: &'static str = $kind; })*
    };
}
pub(crate) use kinds;
