//! The key of the host's tunnel, and the one that follows it (docs/adr/0040).

use std::time::Duration;

use kedge_control::local::TunnelKey as View;
use kedge_core::{Coded as _, Fix, Problem};
use kedge_host::{
    Role,
    identity::TunnelKey,
    tunnel_keys::{TunnelKeys, refused},
};
use kedge_tunnel_device::backend::{Capability, Kind};
use kedge_tunnel_proto::keys::PrivateKey;
use tracing::{info, warn};

use crate::agent::Agent;

impl Agent {
    /// The key of the tunnel, and the one it goes over to.
    pub(crate) fn tunnel_keys(&mut self) -> Result<(PrivateKey, Option<PrivateKey>), Problem> {
        let root = self.live.root();
        if self.live.config().tunnel.data_plane.kind() == Kind::Kernel {
            let key = TunnelKey::load_or_create_for_kernel(root, Role::Agent);
            return Ok((private(&key.map_err(|error| error.problem())?)?, None));
        }
        if self.keys.is_none() {
            let keys = TunnelKeys::load_or_create(root, Role::Agent);
            self.keys = Some(keys.map_err(|error| error.problem())?);
        }
        let Some(keys) = &self.keys else {
            return Err(refused("the tunnel has no key"));
        };
        Ok((
            private(keys.current())?,
            keys.next().map(private).transpose()?,
        ))
    }

    /// How far the change of keys is.
    pub(crate) fn tunnel_key(&self) -> View {
        let Some((tunnel, keys)) = self.tunnel.as_ref().zip(self.keys.as_ref()) else {
            return View {
                because: "no tunnel is wanted".to_owned(),
                ..View::default()
            };
        };
        keys.view(tunnel.public_keys(), tunnel.standing(), LONGEST)
    }

    /// Makes a key that the tunnel goes over to.
    pub(crate) fn rotate_key(&mut self, because: &str) -> Result<View, Problem> {
        let kind = self.live.config().tunnel.data_plane.kind();
        if let Some(lacks) = kind.lacks(Capability::SeveralKeys) {
            return Err(refused("the tunnel's key cannot change while it runs")
                .evidence(lacks)
                .fix(Fix::text(
                    "set `tunnel.data_plane: userspace`, or delete the key and restart the agent: \
                     the tunnel is away until the manager has told the gateways",
                )));
        }
        if self.tunnel.is_none() {
            return Err(refused("no tunnel is wanted")
                .fix(Fix::text("name a manager or a peer in the configuration")));
        }
        let keys = self.tunnel_keys()?;
        drop(keys);
        if let Some(keys) = &mut self.keys {
            keys.begin()?;
        }
        self.have_keys(because)?;
        Ok(self.tunnel_key())
    }

    /// What is due about once a second: a key begins to change when it is old, and the old one goes when
    /// nobody needs it.
    pub(crate) fn tend_keys(&mut self) {
        let Some(standing) = self.tunnel.as_ref().map(super::tunnel::Tunnel::standing) else {
            return;
        };
        let Some(keys) = &mut self.keys else { return };
        let every = self.live.config().tunnel.key_rotation;
        let done = if keys.next().is_none() {
            if !keys.is_due(every) {
                return;
            }
            keys.begin().map(|()| "its age")
        } else if standing.over {
            keys.finish().map(|()| "all peers use the next one")
        } else if keys.is_overdue(LONGEST) {
            keys.finish().map(|()| "it was kept long enough")
        } else {
            return;
        };
        if let Err(problem) = done.and_then(|because| self.have_keys(because)) {
            warn!(KEDGE_CODE = %problem.code, what = problem.what, "the tunnel's key stays");
        }
    }

    /// Says that peers do not go over to the next key.
    pub(crate) fn key_change_problem(&self) -> Option<Problem> {
        let keys = self.keys.as_ref()?;
        let standing = self.tunnel.as_ref().map(super::tunnel::Tunnel::standing);
        let lingers = keys.lingers(&standing.unwrap_or_default(), LONGEST);
        lingers.or_else(|| keys.problem().cloned())
    }

    fn have_keys(&mut self, because: &str) -> Result<(), Problem> {
        let (key, next) = self.tunnel_keys()?;
        let (public, many) = (key.public(), 1 + usize::from(next.is_some()));
        info!(public_key = %public, keys = many, because, "key of the tunnel");
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.set_keys(key, next);
        }
        self.report();
        Ok(())
    }
}

fn private(key: &TunnelKey) -> Result<PrivateKey, Problem> {
    PrivateKey::from_bytes(*key.expose()).map_err(|error| error.problem())
}

/// How long a host accepts the key of before at most: a gateway that was off so long has to ask the
/// manager.
const LONGEST: Duration = Duration::from_hours(7 * 24);
