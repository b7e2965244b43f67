//! Which hosts a selector means.

use kedge_crd::{EdgeHost, LabelSelector, host::HOST_LABEL};

use crate::store::Name;

/// Whether a host is selected by its labels. Its name is one of them (`kedge.dev/host`), whatever was
/// written there: nobody has to keep it up to date.
#[must_use]
pub fn selects(selector: &LabelSelector, name: &Name, host: &EdgeHost) -> bool {
    selector.matches_by(|key| match key {
        HOST_LABEL => Some(&name.name),
        _ => host.metadata.labels.get(key),
    })
}
