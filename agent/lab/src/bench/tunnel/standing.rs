//! What a role of Kedge finds on its disk before it starts: its key, its configuration, and for a gateway
//! what its manager would have told it.

use std::{fs, os::unix::fs::PermissionsExt as _};

use kedge_control::agent::GatewayConfig;
use kedge_host::{Role, Root, identity::TunnelKey, state::Store};
use kedge_tunnel_proto::keys::{PrivateKey, PublicKey};

use crate::{error::LabError, lab::Lab};

pub(in crate::bench) fn root(lab: &Lab, node: &str) -> Root {
    Root::new(lab.root(node))
}

/// The public key of a role's tunnel, made if there is none.
pub(in crate::bench) fn key(lab: &Lab, node: &str, role: Role) -> Result<PublicKey, LabError> {
    let unexpected = |said: String| LabError::Unexpected {
        who: "the key of a tunnel".to_owned(),
        said,
    };
    let key = TunnelKey::load_or_create(&root(lab, node), role);
    let key = key.map_err(|error| unexpected(error.to_string()))?;
    let key = PrivateKey::from_bytes(*key.expose());
    let key = key.map_err(|error| unexpected(error.to_string()))?;
    Ok(key.public())
}

pub(in crate::bench) fn configure(
    lab: &Lab,
    node: &str,
    role: Role,
    text: &str,
) -> Result<(), LabError> {
    let file = root(lab, node).config_file(role);
    let folder = file.parent().unwrap_or(&file);
    fs::create_dir_all(folder).map_err(LabError::file(folder))?;
    fs::write(&file, text).map_err(LabError::file(&file))?;
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(&file, private).map_err(LabError::file(&file))
}

/// Leaves with a gateway what its manager would have told it.
pub(in crate::bench) fn remember(
    lab: &Lab,
    node: &str,
    wished: &GatewayConfig,
) -> Result<(), LabError> {
    let store = Store::new(root(lab, node).state_dir(Role::Gateway));
    let saved = store.save("desired", wished);
    saved.map_err(|error| LabError::Unexpected {
        who: "the state of a gateway".to_owned(),
        said: error.to_string(),
    })
}
