//! What goes in and out of a stream.

use std::{fmt, sync::Arc};

use crate::Kind;

/// The name of a resource, shared between everybody who knows it.
pub type Name = Arc<str>;

/// What a resource says, as a number: two resources of one name and version are alike.
///
/// On the wire 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The version a client says it holds; `None` where it is none of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_ours = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_ours.then(|| u64::from_str_radix(text, 16).ok())?;
        number.map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A resource as it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    /// What it says.
    pub version: Version,
    /// Its length on the wire, bytes: responses are cut by it.
    pub length: usize,
}

/// What became of a wanted resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// What it says from here on; `None` for one that is gone.
    pub revision: Option<Revision>,
}

/// What can happen to a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Envoy said something.
    Request(Request),
    /// What is wanted changed; told as one.
    Changed(Vec<Change>),
}

/// A `DeltaDiscoveryRequest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `type_url`.
    pub kind: Kind,
    /// `resource_names_subscribe`; `*` is everything.
    pub subscribe: Vec<Name>,
    /// `resource_names_unsubscribe`.
    pub unsubscribe: Vec<Name>,
    /// `initial_resource_versions`: what the client holds from an earlier stream, with `None` for a
    /// version that is not ours. Heeded in the first request of a kind.
    pub holds: Vec<(Name, Option<Version>)>,
    /// `response_nonce`: the response that is acknowledged.
    pub nonce: Option<u64>,
    /// `error_detail`: the response is refused, and why.
    pub refused: Option<Arc<str>>,
}

impl Request {
    /// A request that says nothing yet.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            subscribe: Vec::new(),
            unsubscribe: Vec::new(),
            holds: Vec::new(),
            nonce: None,
            refused: None,
        }
    }
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tell Envoy.
    Send(Response),
    /// Tell whoever reports what Envoy made of a resource.
    Settled(Settled),
}

/// A `DeltaDiscoveryResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// `type_url`.
    pub kind: Kind,
    /// `nonce`.
    pub nonce: u64,
    /// `resources`, by name and version.
    pub told: Vec<(Name, Version)>,
    /// `removed_resources`.
    pub removed: Vec<Name>,
}

/// What Envoy made of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Envoy took it, or holds it from an earlier stream.
    Applied(Version),
    /// Envoy refuses it, and keeps what it had under this name.
    Refused {
        /// Which one.
        version: Version,
        /// What Envoy says.
        detail: Arc<str>,
    },
    /// Envoy does not hold it any more.
    Gone,
}

/// Why a request was refused; the state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// A client may ask for so many names and no more.
    #[error("more names than {MAX_NAMES} are asked for")]
    TooManyNames,
    /// No resource has a name of this length.
    #[error("a name of more than {MAX_NAME} bytes is asked for")]
    NameTooLong,
}

/// How many resources of one kind a client may ask for by name.
pub const MAX_NAMES: usize = 100_000;

/// How long a name may be, bytes.
pub const MAX_NAME: usize = 1024;
