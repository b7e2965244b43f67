//! What may stand in `agent.yaml`. Every field is optional, so that a layer sets only what it
//! names.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use ipnet::IpNet;
use kedge_core::{
    Name,
    vip::{Priority, Vrid},
};
use kedge_host::{enrol::ManagerUrl, layers::Auto, section};
use kedge_tunnel_proto::keys::PublicKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{
    AdvertSpan, Attempts, AuthKeyId, CertificatePin, Delay, Endpoint, HttpsUrl, InterfaceName,
    Keepalive, MinTtl, Mtu, ProbeSpan, TimeWindow, Version, VrrpVersion,
};

section! {
    /// The configuration file of `kedge agent`.
    AgentFile {
        /// The version of the format: 1.
        version: Version,
        /// The floating addresses this host takes part in, by name.
        vips: BTreeMap<Name, VipFile>,
        /// The manager this host enrols at. Without it the agent works alone.
        manager: ManagerFile,
        /// The WireGuard tunnel to the gateways.
        tunnel: TunnelFile,
        /// The host itself.
        node: NodeFile,
        /// What is reported of the host's addresses.
        report: ReportFile,
    }
}

section! {
    /// A floating address.
    VipFile {
        /// The addresses, installed as /32 or /128. Those of the family of the first are
        /// advertised, the others go along: a VIP for IPv4 and IPv6.
        addresses: Vec<IpAddr>,
        /// Addresses that go along without being advertised.
        excluded_addresses: Vec<IpAddr>,
        /// The VRRP version, the same on all members: 3, or 2 for IPv4 with others that speak
        /// nothing newer.
        version: VrrpVersion,
        /// The virtual router id: `auto` derives it from the first address, the same on every host.
        vrid: Auto<Vrid>,
        /// The priority while healthy: `auto`, 192 to 254 (with `members: mixed` 1 to 254), or 255
        /// for the owner of the address.
        priority: Auto<Priority>,
        /// The priority while not healthy, with `members: mixed`.
        unhealthy_priority: Priority,
        /// Who else takes part: `kedge`, or `mixed` with keepalived, FRR and others.
        members: MembersFile,
        /// The time between advertisements: 10ms to 40.95s in steps of 10ms.
        advert_interval: AdvertSpan,
        /// What decides whether this host is fit to hold the address: `auto` asks the API server
        /// on this host, `none` asks nobody.
        health: HealthFile,
        /// The interface; left out it is chosen by on-link prefix.
        interface: InterfaceName,
        /// The file with the password of version 2, 1 to 8 bytes, as keepalived's `auth_pass`. It
        /// travels in clear: it keeps groups apart, it protects from nobody.
        password_file: PathBuf,
        /// Keys with which advertisements are signed and verified, as keepalived's `auth_hmac`.
        auth: AuthFile,
        /// Whether a host of higher priority takes the address from a living one.
        preempt: bool,
        /// How long after start or link-up that counts: 0s to 1h.
        preempt_delay: Delay,
        /// The other hosts, where adverts go to each of them and not to the group: for networks
        /// without multicast.
        unicast_peers: Vec<IpAddr>,
        /// The lowest TTL accepted from them: 255 is the same link.
        min_ttl: MinTtl,
        /// The source of adverts, an address of the interface; left out it is the one on the
        /// VIP's prefix, for IPv6 the link-local one.
        source: IpAddr,
        /// The checksum form to send: `auto` learns it, `pseudo_header` (RFC 5798, as most
        /// send it), or `message` (RFC 9568 for IPv4, without the pseudo-header).
        checksum: ChecksumFile,
    }
}

section! {
    /// Signed advertisements (HMAC-SHA256, as keepalived 2.4.2 and later).
    AuthFile {
        /// The number of the key that signs.
        active_key: AuthKeyId,
        /// The files of the keys by their number, 1 to 255: 32 to 64 bytes, or `hex:` and digits.
        keys: BTreeMap<AuthKeyId, PathBuf>,
        /// What is asked of the others: `enforce`, or on the way there `receive_only` (verify what
        /// is signed, sign nothing), then `permissive` (sign, and accept what is not).
        mode: AuthModeFile,
        /// How far clocks may differ: 1s to 5m. Left out it is three intervals, at least 5s.
        time_window: TimeWindow,
    }
}

section! {
    /// A health probe over HTTPS.
    ProbeFile {
        /// What to ask; 200 is healthy.
        url: HttpsUrl,
        /// The CA that signed the server's certificate, PEM.
        ca_file: PathBuf,
        /// The SHA-256 of the server's public key, base64.
        pin: CertificatePin,
        /// The time between probes: 100ms to 60s.
        interval: ProbeSpan,
        /// How long an answer may take: 50ms to 60s.
        timeout: ProbeSpan,
        /// Successes in a row that prove health after a failure: 1 to 100.
        rise: Attempts,
        /// Failures in a row that disprove it: 1 to 100.
        fall: Attempts,
    }
}

section! {
    /// The way to the manager.
    ManagerFile {
        /// Its URL, such as `https://203.0.113.9:9443`.
        url: ManagerUrl,
        /// The file with the enrolment token, needed once.
        token_file: PathBuf,
        /// The name to enrol with; left out it is the host's name.
        name: Name,
        /// The object that stands for the same machine, such as an ElementalHost.
        host_ref: HostRefFile,
        /// The pin of the manager's CA, as it stands at the end of a token: with it a host without a
        /// token enrols by the key it registered with at Elemental.
        ca_pin: String,
    }
}

section! {
    /// An object that stands for the same machine.
    HostRefFile {
        /// Its API group.
        api_group: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    }
}

section! {
    /// The WireGuard tunnel.
    TunnelFile {
        /// The UDP port; 0 lets the kernel choose.
        listen_port: u16,
        /// The device's name.
        interface: InterfaceName,
        /// The device's MTU: 1280 to 9000. Left out it is the manager's, else 1420.
        mtu: Mtu,
        /// Addresses of this end, beside those the manager gives.
        #[schemars(with = "Option<Vec<String>>")]
        addresses: Vec<IpNet>,
        /// Static peers, beside those the manager gives.
        peers: BTreeMap<Name, PeerFile>,
        /// The prefixes a manager may route into the tunnel; anything else is refused and reported.
        #[schemars(with = "Option<Vec<String>>")]
        allowed: Vec<IpNet>,
    }
}

section! {
    /// A static tunnel peer.
    PeerFile {
        /// Its public key, base64.
        public_key: PublicKey,
        /// Where it is, `host:port`; left out where it calls us.
        endpoint: Endpoint,
        /// The prefixes that belong to it.
        #[schemars(with = "Option<Vec<String>>")]
        allowed_ips: Vec<IpNet>,
        /// The time between keepalives: 1s to 18h, or 0s for none.
        keepalive: Keepalive,
    }
}

section! {
    /// The host itself.
    NodeFile {
        /// Its name where the kernel's is not the one to use.
        name: Name,
    }
}

section! {
    /// What is reported of the host's addresses.
    ReportFile {
        /// The address to report as primary.
        primary: IpAddr,
        /// Prefixes whose addresses are not reported.
        #[schemars(with = "Option<Vec<String>>")]
        exclude: Vec<IpNet>,
        /// Interfaces whose addresses are not reported.
        exclude_interfaces: Vec<InterfaceName>,
    }
}

/// Who else takes part in a VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MembersFile {
    /// Kedge only.
    #[default]
    Kedge,
    /// Other VRRP implementations too.
    Mixed,
}

/// What is asked of the other members' advertisements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthModeFile {
    /// Verify what is signed, accept what is not, sign nothing.
    ReceiveOnly,
    /// Sign, and accept what is not signed.
    Permissive,
    /// Sign, and accept nothing that is not.
    #[default]
    Enforce,
}

/// The checksum of advertisements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumFile {
    /// Learned from the LAN.
    #[default]
    Auto,
    /// Over the message alone.
    Message,
    /// Over pseudo-header and message.
    PseudoHeader,
}

/// What decides whether this host is fit to hold a VIP.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HealthFile {
    /// The API server on this host.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// A probe.
    Probe(Box<ProbeFile>),
}
