//! Objects of the ways that lead from this host: its tunnel's peers, and other hosts of its VIPs. They have what is
//! worth waking somebody for; what moves each second is on the control socket.

use zbus::{
    interface,
    object_server::{ObjectServer, SignalEmitter},
};

use super::{
    View,
    objects::{Shown, follow},
};

/// A peer of the tunnel as everybody sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelView {
    /// `Up`, `Down`, `Connecting`.
    pub state: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why. It may hold a number that moves: nobody is told of that.
    pub because: String,
    /// The way: `udp` or `tls`.
    pub path: String,
    /// Where the peer is; empty where that is not known.
    pub endpoint: String,
}

/// Another host of this host's VIPs as everybody sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerView {
    /// Its name; empty until it said so.
    pub host: String,
    /// Whether the link to it is up.
    pub up: bool,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why not.
    pub because: String,
}

/// Has them follow what is to be seen.
pub(super) async fn tell(server: &ObjectServer, shown: &View, view: &View) -> zbus::Result<()> {
    let tunnel = |name: &str, view| TunnelObject {
        name: name.to_owned(),
        view,
    };
    follow(server, "tunnel", &shown.tunnels, &view.tunnels, tunnel).await?;
    let peer = |address: &str, view| PeerObject {
        address: address.to_owned(),
        view,
    };
    follow(server, "peer", &shown.peers, &view.peers, peer).await
}

struct TunnelObject {
    name: String,
    view: TunnelView,
}

#[interface(name = "dev.kedge.Agent1.Tunnel", introspection_docs = false)]
impl TunnelObject {
    #[zbus(property(emits_changed_signal = "const"))]
    fn name(&self) -> &str {
        &self.name
    }

    #[zbus(property)]
    fn state(&self) -> &str {
        &self.view.state
    }

    #[zbus(property)]
    fn since(&self) -> &str {
        &self.view.since
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn because(&self) -> &str {
        &self.view.because
    }

    #[zbus(property)]
    fn path(&self) -> &str {
        &self.view.path
    }

    #[zbus(property)]
    fn endpoint(&self) -> &str {
        &self.view.endpoint
    }
}

impl Shown for TunnelObject {
    type View = TunnelView;

    fn view(&mut self) -> &mut TunnelView {
        &mut self.view
    }

    async fn tell(&self, to: &SignalEmitter<'_>, before: &TunnelView) -> zbus::Result<()> {
        let now = &self.view;
        if now.path != before.path {
            self.path_changed(to).await?;
        }
        if now.endpoint != before.endpoint {
            self.endpoint_changed(to).await?;
        }
        if now.since != before.since {
            self.since_changed(to).await?;
        }
        if now.state != before.state {
            self.state_changed(to).await?;
        }
        Ok(())
    }
}

struct PeerObject {
    address: String,
    view: PeerView,
}

#[interface(name = "dev.kedge.Agent1.Peer", introspection_docs = false)]
impl PeerObject {
    #[zbus(property(emits_changed_signal = "const"))]
    fn address(&self) -> &str {
        &self.address
    }

    #[zbus(property)]
    fn host(&self) -> &str {
        &self.view.host
    }

    #[zbus(property)]
    fn up(&self) -> bool {
        self.view.up
    }

    #[zbus(property)]
    fn since(&self) -> &str {
        &self.view.since
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn because(&self) -> &str {
        &self.view.because
    }
}

impl Shown for PeerObject {
    type View = PeerView;

    fn view(&mut self) -> &mut PeerView {
        &mut self.view
    }

    async fn tell(&self, to: &SignalEmitter<'_>, before: &PeerView) -> zbus::Result<()> {
        let now = &self.view;
        if now.host != before.host {
            self.host_changed(to).await?;
        }
        if now.since != before.since {
            self.since_changed(to).await?;
        }
        if now.up != before.up {
            self.up_changed(to).await?;
        }
        Ok(())
    }
}
