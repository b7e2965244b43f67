//! What a device is opened with.

use ipnet::IpNet;
use kedge_tunnel_proto::{keys::PrivateKey, memory::Memory, noise::CoreName};

use crate::{offload::Allowed, workers::Workers};

/// One WireGuard interface. Addresses and peers can change while it runs, the rest cannot.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// The TUN interface's name, such as `kedge0`.
    pub ifname: String,
    /// This device's key.
    pub private_key: PrivateKey,
    /// The UDP port of both families; 0 lets the kernel choose.
    pub listen_port: u16,
    /// Another one beside it, for peers that reach it alone; whatever else has it, the device is opened.
    pub other_port: Option<u16>,
    /// The addresses on the TUN interface.
    pub addresses: Vec<IpNet>,
    /// The MTU of the TUN interface.
    pub mtu: u16,
    /// Whose handshakes and sessions its peers have.
    pub noise_core: CoreName,
    /// What may be left to the kernel.
    pub offload: Allowed,
    /// How many threads move its packets.
    pub workers: Workers,
    /// What an earlier device knew of its peers.
    pub memory: Memory,
}
