//! Who gives a node's links their addresses, and with what.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::tree::Tree;

/// The software that configures `eth0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// systemd-networkd.
    Networkd,
    /// NetworkManager.
    NetworkManager,
}

impl Links {
    /// Gives a node the software and this address, as CIDR.
    pub(crate) fn install(self, tree: &Tree, net: &str) {
        match self {
            Self::Networkd => {
                tree.write(NETWORK, &network(net));
                tree.enable("systemd-networkd.service");
                tree.alias(
                    "systemd-networkd.service",
                    "dbus-org.freedesktop.network1.service",
                );
            }
            Self::NetworkManager => {
                tree.write(CONNECTION, &connection(net));
                let path = tree.root().join(CONNECTION);
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
                tree.write("etc/NetworkManager/conf.d/10-lan.conf", MANAGED);
                tree.enable("NetworkManager.service");
            }
        }
    }
}

fn network(net: &str) -> String {
    format!("[Match]\nName=eth0\n\n[Network]\nAddress={net}\nLinkLocalAddressing=no\n")
}

fn connection(net: &str) -> String {
    format!(
        "[connection]\nid=lan\nuuid=2f9b2c1e-6f0b-4a56-9a63-5f4f1d4e7a10\ntype=ethernet\n\
         interface-name=eth0\n\n[ipv4]\nmethod=manual\naddress1={net}\n\n[ipv6]\nmethod=disabled\n"
    )
}

/// What systemd-networkd knows of `eth0`.
pub const NETWORK: &str = "etc/systemd/network/20-lan.network";
const CONNECTION: &str = "etc/NetworkManager/system-connections/lan.nmconnection";
/// It leaves veth links alone unless it is told.
const MANAGED: &str = "[device-lan]\nmatch-device=interface-name:eth0\nmanaged=1\n";
