//! A whole gateway on a host, as a process of its own, and the command line beside it. It has no
//! manager: it serves the desired state that it finds on its disk.

use std::{
    ops::{Deref, DerefMut},
    path::PathBuf,
};

use kedge_control::agent::GatewayConfig;
use kedge_host::{Role, Root, identity::TunnelKey, state::Store};
use kedge_net::netns::Enclosure;
use kedge_tunnel_proto::keys::{PrivateKey, PublicKey};

use crate::{
    asked::{Asked, Said},
    lan::Host,
    role::RoleOf,
};

/// A gateway and its folders; killed when dropped.
#[derive(Debug)]
pub struct Gateway<'a> {
    // Ends before what outlives it is removed.
    role: RoleOf<'a>,
    _namespaces: Namespaces,
}

/// The public key of a role's tunnel below `root`, made if there is none.
#[must_use]
pub fn tunnel_key(root: impl Into<PathBuf>, role: Role) -> PublicKey {
    let key = TunnelKey::load_or_create(&Root::new(root), role).unwrap();
    PrivateKey::from_bytes(*key.expose()).unwrap().public()
}

impl<'a> Gateway<'a> {
    /// A host's gateway with this configuration, not started yet.
    #[must_use]
    pub fn new(host: &'a Host, executable: &str, yaml: &str) -> Self {
        let role = RoleOf::new(host, executable, ("gateway", "gateway"), yaml);
        let namespaces = Namespaces(role.root().join("run/kedge/netns"));
        Self {
            role,
            _namespaces: namespaces,
        }
    }

    /// The public key of its tunnel.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        tunnel_key(self.root(), Role::Gateway)
    }

    /// Leaves on its disk what it is to do.
    pub fn remember(&self, wished: &GatewayConfig) {
        let store = Store::new(Root::new(self.root()).state_dir(Role::Gateway));
        store.save("desired", wished).unwrap();
    }
}

impl<'a> Deref for Gateway<'a> {
    type Target = RoleOf<'a>;

    fn deref(&self) -> &Self::Target {
        &self.role
    }
}

impl DerefMut for Gateway<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.role
    }
}

impl Asked for Gateway<'_> {
    fn kedge(&self, line: &str) -> Said {
        self.role.kedge(line)
    }
}

/// What outlives a gateway does not outlive a test.
#[derive(Debug)]
struct Namespaces(PathBuf);

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in Enclosure::names(&self.0).unwrap_or_default() {
            let _ = Enclosure::remove(&self.0.join(name));
        }
    }
}
