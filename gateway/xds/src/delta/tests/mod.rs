//! The machine against a model of Envoy, and against a table.

mod envoy;
mod table;
mod world;

use super::{Change, Name, Revision, Version};
use crate::Kind;

/// A resource of 100 bytes.
fn change(kind: Kind, name: &str, version: Option<u64>) -> Change {
    let revision = |version| Revision {
        version: Version(version),
        length: 100,
    };
    Change {
        kind,
        name: Name::from(name),
        revision: version.map(revision),
    }
}
