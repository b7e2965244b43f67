//! A resource as it goes to Envoy.

use std::{fmt, sync::Arc};

use blake2::{Blake2s, Digest, digest::consts::U8};
use envoy_types::pb::google::protobuf::Any;
use prost::Message;
use serde::Serialize;

use crate::{
    Kind,
    delta::{Name, Revision, Version},
};

/// A resource: what it is called, what it says, and in which version.
#[derive(Clone, PartialEq)]
pub struct Resource {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// Its version and length.
    pub revision: Revision,
    /// What it says.
    pub(crate) body: Any,
}

/// Without what it says: of a secret that is a private key.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl Resource {
    /// A resource with the version that `of`, what it was made of, has.
    ///
    /// Not the version of its bytes: maps of protocol buffers are written in any order, and the same
    /// resource would be another one after each start.
    pub(crate) fn new(
        kind: Kind,
        name: impl Into<Name>,
        of: &impl Serialize,
        body: &impl Message,
    ) -> Self {
        let body = Any {
            type_url: kind.type_url().to_owned(),
            value: body.encode_to_vec(),
        };
        let revision = Revision {
            version: version(of),
            length: body.value.len(),
        };
        Self {
            kind,
            name: name.into(),
            revision,
            body,
        }
    }
}

/// A resource that several know.
pub(crate) type Shared = Arc<Resource>;

fn version(of: &impl Serialize) -> Version {
    // What is hashed is made of numbers, texts and lists: it can always be written.
    let text = serde_json::to_vec(&(FORM, of)).unwrap_or_default();
    let hash: [u8; 8] = Blake2s::<U8>::digest(&text).into();
    Version(u64::from_be_bytes(hash))
}

/// Which form of resources is made of a model. Another number has Envoy told everything anew after an
/// upgrade that makes another form of the same model.
const FORM: u32 = 1;
