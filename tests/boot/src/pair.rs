//! Two nodes, of which the first holds a VIP, and a host that uses it.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use kedge_tests_netns::{
    asked::Asked,
    eventually,
    lan::{Host, Lan},
    secs,
    train::{Echo, Train},
};

use crate::{gone::Gone, links::Links, node::Node};

/// The VIP.
pub const VIP: &str = "10.20.14.10";

/// A configuration with the VIP, at this priority.
#[must_use]
pub fn member(priority: u8) -> String {
    configuration(priority, "")
}

fn configuration(priority: u8, more: &str) -> String {
    format!(
        "vips: {{api: {{addresses: [{VIP}], health: none, vrid: 51, priority: {priority}{more}}}}}\n"
    )
}

/// The bridge of a LAN forwards from the start.
const QUICK: &str = ", startup_delay: 500ms";

/// Two nodes with services on every address, and a client.
#[derive(Debug)]
pub struct Pair {
    _services: (Echo, Echo),
    /// Holds the VIP, at priority 250.
    pub a: Node,
    /// Stands by, at priority 240.
    pub b: Node,
    /// Uses it.
    pub client: Host,
}

impl Pair {
    /// Boots them.
    #[must_use]
    pub fn boot(lan: &Lan, kedge: &str) -> Self {
        Self::boot_with(lan, kedge, Links::Networkd)
    }

    /// Boots them with this software for their links.
    #[must_use]
    pub fn boot_with(lan: &Lan, kedge: &str, links: Links) -> Self {
        let (ours, theirs) = ((links, "10.20.14.11/24"), (links, "10.20.14.12/24"));
        let a = Node::boot(lan, "a", ours, kedge, &configuration(250, QUICK));
        // Of two that start at once the quicker one may claim it first, whatever the priorities.
        let b = Node::boot(lan, "b", theirs, kedge, "version: 1\n");
        let client = lan.host("c", "10.20.14.13/24");
        a.is_up();
        b.is_up();
        eventually("a holds it", secs(10), || a.holds(VIP));
        b.write("etc/kedge/agent.yaml", &configuration(240, QUICK));
        b.systemctl("reload");
        eventually("b stands by", secs(10), || b.stands_by());
        let guarded = || !a.guardians().is_empty() && !b.guardians().is_empty();
        eventually("both are guarded", secs(5), guarded);
        Self {
            _services: (Echo::start(&a), Echo::start(&b)),
            a,
            b,
            client,
        }
    }

    /// A packet each millisecond from the client to the VIP.
    #[must_use]
    pub fn train(&self) -> Train {
        Train::start(&self.client, VIP.parse().unwrap())
    }

    /// For how long the VIP was gone each time while something was done on the first node. It is
    /// there again, and nobody took over.
    #[must_use]
    pub fn gone_while(&self, what: &str, act: impl Fn()) -> Vec<Duration> {
        let gone = Gone::listen(&self.a, VIP);
        let train = self.train();
        act();
        eventually("the VIP is there", secs(2), || self.a.holds(VIP));
        let (sent, lost) = train.finish();
        let gone = gone.end();
        println!("{what}: gone for {gone:?}, {lost} of {sent} packets lost");
        self.nothing_moved();
        gone
    }

    /// Puts something else in the place of the first node's executable, as a package does.
    pub fn replace(&self, by: &str) {
        let path = self.a.path("usr/bin/kedge");
        let new = path.with_extension("new");
        fs::write(&new, by).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, path).unwrap();
    }

    /// Whether the first node's VIP is where it was, and has been all the time.
    pub fn nothing_moved(&self) {
        assert_eq!(self.b.counter("became_active"), 0);
        assert!(self.a.holds(VIP) && !self.b.holds(VIP));
    }

    /// Waits until the second node has it, and the first one lets go.
    pub fn moves(&self) {
        eventually("b takes it", secs(10), || self.b.holds(VIP));
        eventually("a lets go", secs(5), || !self.a.holds(VIP));
    }
}
