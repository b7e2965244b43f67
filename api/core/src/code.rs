//! Stable error codes: one list for the command line, the journal, conditions, metrics and the
//! documentation.
//!
//! A code is `KEDGE-<AREA>-<nnnn>`. Numbers are never reused: a code that goes moves to
//! [`RETIRED`]. Every code has a page in `docs/errors/`, embedded here so that
//! `kedge explain CODE` works offline.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $area:ident $number:literal, $title:literal;)*) => {
        /// A stable error code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub enum Code {
            $(#[doc = concat!("`", stringify!($area), "` ", $number, ": ", $title, ".")] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The area the code belongs to.
            #[must_use]
            pub const fn area(self) -> Area {
                match self { $(Self::$variant => Area::$area,)* }
            }

            /// The number within the area.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Self::$variant => $number,)* }
            }

            /// What the code means, in half a sentence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
}

macro_rules! areas {
    ($($area:ident $what:literal;)*) => {
        /// The part of Kedge a code belongs to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Area {
            $(#[doc = $what] $area,)*
        }

        impl Area {
            /// The area as it is spelt in a code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$area => stringify!($area),)* }
            }
        }
    };
}

areas! {
    CFG "Configuration.";
    VIP "Floating addresses.";
    ARP "ARP and neighbour discovery.";
    VRRP "The VRRP protocol.";
    BGP "Routes that neighbours are told of.";
    BFD "Paths to peers.";
    TUN "Tunnels.";
    GW "The gateway role.";
    ENR "Enrolment and identity.";
    API "The agent API.";
    CAPI "Cluster API objects and endpoints.";
    IPAM "Address pools.";
    LB "Load balancing.";
    K8S "The agent in a tenant's own cluster.";
    NET "The kernel's network.";
    HOST "The host around Kedge.";
    PKG "Releases and how they get onto a host.";
    SYS "Everything else.";
    LAB "The lab.";
}

codes! {
    ConfigSyntax = CFG 1, "a configuration file cannot be read";
    ConfigUnknownKey = CFG 2, "a configuration file has a key Kedge does not know";
    ConfigOutOfRange = CFG 3, "a configuration value is out of range";
    ConfigFileUnreadable = CFG 4, "a configuration file named on the command line cannot be opened";
    ConfigEnvironment = CFG 5, "an environment variable or flag does not fit the configuration";
    ConfigDuplicateVrid = CFG 6, "two VIPs on one interface use the same VRID";
    ConfigStale = CFG 7, "a new configuration was refused, the last good one keeps running";
    ConfigTooLarge = CFG 8, "a configuration file is too large, too deep or not text";
    ConfigRule = CFG 9, "settings that do not go together";
    ConfigSecretExposed = CFG 10, "any user of the host can read or change a file with a secret";
    VipNoOnLinkPrefix = VIP 1, "no interface has a prefix that contains the VIP";
    VipAddressInUse = VIP 2, "another host answers for the VIP";
    VipNotOwner = VIP 3, "priority 255 without owning the address";
    VipAddressRefused = VIP 4, "the kernel refused the VIP's address";
    VipLinkDown = VIP 5, "the VIP's interface has no link";
    VipDuplicateOwner = VIP 6, "two hosts claim the VIP";
    VipVridInUse = VIP 7, "another router on the LAN uses the VIP's VRID";
    VipUnhealthy = VIP 8, "the VIP's service is not healthy on this host";
    VipInterfaceMissing = VIP 9, "the configured interface does not exist";
    VipUnknown = VIP 10, "no VIP has that name";
    VipTrackFailed = VIP 11, "something the VIP tracks fails on this host";
    VipOrderRefused = VIP 15, "an order to a VIP is refused";
    VipNotMoved = VIP 16, "an order was given and the VIP did not move";
    VipFrozen = VIP 17, "a VIP is frozen";
    VipDrained = VIP 18, "this host is drained";
    VipFenceWeak = VIP 20, "nothing silences a VIP's host that hangs";
    VipGuardian = VIP 21, "nobody hands a VIP over when the agent dies";
    VipTooFast = VIP 22, "a VIP's interval is shorter than this host can keep";
    VipUnproven = VIP 24, "nothing that is sent to a VIP arrives at its host";
    VipVirtualMac = VIP 26, "a VIP's virtual hardware address cannot be used";
    VipPeerLink = VIP 27, "this host has no links to the other hosts of its VIPs";
    VipCannotCarry = VIP 28, "the interface on the VIP's network cannot carry it";
    ArpSocket = ARP 1, "ARP cannot be watched on an interface";
    VrrpMalformed = VRRP 1, "malformed VRRP advertisements arrive";
    VrrpSocket = VRRP 2, "VRRP cannot be spoken on an interface";
    VrrpSplitBrain = VRRP 3, "a VRRP peer does not hear or accept our advertisements";
    VrrpUnverified = VRRP 4, "advertisements for our virtual router cannot be verified";
    BgpPortInUse = BGP 1, "another program of this host speaks BGP";
    BgpSocket = BGP 2, "BGP has no socket";
    BgpNotEstablished = BGP 3, "a BGP session is not established";
    BgpNoNextHop = BGP 4, "there is no address to send a route's packets to";
    BgpOnLink = BGP 5, "a VIP that every host has is in a network of the hosts";
    BgpTable = BGP 6, "the kernel refuses a route for the routing daemon";
    BgpUnknown = BGP 7, "no BGP neighbour has that name";
    BgpRouters = BGP 8, "no neighbour can be found on an interface";
    BgpTcpAo = BGP 9, "segments cannot be signed with TCP-AO";
    BfdPortInUse = BFD 1, "another program of this host speaks BFD";
    BfdSocket = BFD 2, "a BFD session has no socket";
    BfdLost = BFD 3, "a BFD session has lost its peer";
    BfdTtl = BFD 4, "BFD packets of a peer have crossed a router";
    BfdFlaps = BFD 5, "a BFD session comes and goes";
    BfdTooFast = BFD 6, "a BFD interval is shorter than this host can keep";
    BfdNotUp = BFD 7, "a BFD session does not come up";
    TunDeviceMissing = TUN 1, "the TUN device cannot be opened";
    TunPortInUse = TUN 2, "the WireGuard port is taken";
    TunNoAnswer = TUN 3, "a gateway does not answer through the tunnel";
    TunOutsideBounds = TUN 4, "a tunnel prefix is outside what this host allows";
    TunKey = TUN 5, "a WireGuard key cannot be used";
    TunUnknown = TUN 6, "no tunnel peer has that name";
    TunNoKernel = TUN 12, "the kernel has no WireGuard";
    TunNoClamp = TUN 20, "the tunnel has no MSS clamp";
    TunSmallPath = TUN 21, "the way to a tunnel peer is too small";
    TunFallback = TUN 22, "a gateway is not reached by the usual UDP port, and another way is used";
    TunNoTls = TUN 23, "the tunnel's way over TLS cannot be used";
    TunNoCapture = TUN 30, "the tunnel's packets cannot be captured";
    TunNoBench = TUN 31, "a tunnel peer answers no bench";
    TunKeyChange = TUN 40, "a change of the tunnel's key cannot begin, or does not end";
    TunShortcut = TUN 50, "a host does not answer for its cluster's endpoint";
    GatewayPortInUse = GW 1, "a gateway listener's port is taken";
    GatewayNoMember = GW 2, "a listener has no live member";
    GatewayListenerFull = GW 3, "a gateway listener holds as many connections as it may";
    GatewayEnvoyRefused = GW 4, "Envoy refuses what a gateway tells it";
    GatewayNoEnvoy = GW 5, "a gateway has no Envoy beside it";
    GatewayUnserved = GW 6, "a gateway's data plane does not do what a frontend asks for";
    GatewayUncounted = GW 10, "a gateway cannot count what is open to hosts that are being left";
    EnrolTokenMalformed = ENR 1, "an enrolment token is malformed";
    EnrolTokenExpired = ENR 2, "an enrolment token has expired";
    EnrolTokenUsed = ENR 3, "an enrolment token has been used up";
    EnrolPinMismatch = ENR 4, "the manager's CA does not match the token's pin";
    EnrolProofRefused = ENR 5, "the manager refused the proof of enrolment";
    EnrolTokenScope = ENR 6, "an enrolment token is not for this role, tenant or host";
    EnrolTokenUnreadable = ENR 7, "the enrolment token cannot be read";
    EnrolNameTaken = ENR 8, "a host of that name is enrolled with another key";
    EnrolWaits = ENR 9, "an enrolment waits for approval";
    EnrolElementalKey = ENR 10, "the Elemental host key cannot be used to enrol";
    ApiMalformed = API 1, "a request to the manager is malformed";
    ApiUnauthenticated = API 2, "a request to the manager has no valid certificate";
    ApiForbidden = API 3, "a host asked for what is not its own";
    ApiNotFound = API 4, "the manager does not know that object";
    ApiConflict = API 5, "the manager holds a newer or another identity";
    ApiUnreachable = API 6, "the manager cannot be reached";
    ApiTooLarge = API 7, "a request is larger than the manager accepts";
    ApiNoLeader = API 8, "no manager leads";
    ApiTooMany = API 9, "too many requests were refused";
    CapiObjectInvalid = CAPI 1, "a Cluster API object cannot be read";
    CapiEndpointConflict = CAPI 2, "the cluster already has another endpoint";
    CapiWaiting = CAPI 3, "an endpoint waits for something";
    CapiMode = CAPI 4, "no endpoint mode can be told for a cluster";
    CapiKindUnseen = CAPI 5, "the manager may not read a kind of objects";
    IpamPoolMissing = IPAM 1, "an address pool does not exist";
    IpamPoolInvalid = IPAM 2, "an address pool is not usable";
    IpamPoolExhausted = IPAM 3, "an address pool has no free address";
    IpamAddressTaken = IPAM 4, "an address is given to somebody else";
    LbNoActiveTarget = LB 1, "a load balancer has no active target";
    K8sUnreachable = K8S 1, "the cluster whose Services are offered does not answer";
    K8sForbidden = K8S 2, "the agent in a cluster may not do its work";
    K8sAnotherSpeaks = K8S 3, "another agent speaks for the cluster";
    K8sHeld = K8S 4, "the manager asks whether most of what is offered is to go";
    K8sIdentity = K8S 5, "the agent in a cluster cannot keep its identity";
    K8sNoAgent = K8S 6, "no agent offers the Services of a cluster";
    NetPermission = NET 1, "Kedge lacks the privilege to change the network";
    NetKernel = NET 2, "the kernel refused a network change";
    HostStateCorrupt = HOST 1, "a state file is corrupt";
    HostStateNotPersisted = HOST 2, "state cannot be written to disk";
    HostSocketInUse = HOST 3, "another process has what this role serves";
    HostNotRunning = HOST 4, "the role is not running or not reachable";
    HostSocketPermission = HOST 5, "the control socket refuses this user";
    HostReplacement = HOST 6, "an executable cannot take the place of the agent";
    HostSplitDns = HOST 20, "the tunnel's names cannot be asked about through it";
    PkgTampered = PKG 1, "a release is not what was signed";
    PkgUntrusted = PKG 2, "a release is signed by nobody this host trusts";
    PkgOlder = PKG 3, "a release is older than what is installed";
    PkgNothingFits = PKG 4, "a release has nothing for this host";
    PkgUnreachable = PKG 5, "a release cannot be read";
    PkgNotInstalled = PKG 6, "a release cannot be installed";
    PkgTakenBack = PKG 7, "an upgrade was taken back";
    PkgNoWayBack = PKG 8, "there is no version to go back to";
    SysUnexpected = SYS 1, "an unexpected error";
    SysUsage = SYS 2, "a command that cannot be understood";
    SysUnknownCode = SYS 3, "no error has that code";
    SysVersionSkew = SYS 4, "the command line and the role do not fit together";
    LabPrivilege = LAB 1, "the lab needs root";
    LabToolMissing = LAB 2, "the lab lacks a program or kernel feature";
    LabBusy = LAB 3, "a lab is already running";
    LabStepFailed = LAB 4, "a step of the lab did not hold";
    LabNotUp = LAB 5, "no lab is up";
}

/// Codes that existed once. Their numbers are never given again.
pub const RETIRED: &[&str] = &[];

impl Code {
    /// The id under which the journal's catalogue explains it (`MESSAGE_ID`): a base that is ours
    /// alone, then the area's letters and the number.
    #[must_use]
    pub fn message_id(self) -> String {
        let mut id = String::from("5d1be8c0a84f4d3b9e72");
        let letters = self.area().as_str().bytes().chain(std::iter::repeat(0));
        for letter in letters.take(4) {
            let _ = write!(id, "{letter:02x}");
        }
        let _ = write!(id, "{:04x}", self.number());
        id
    }

    /// The page of the code, as Markdown.
    #[must_use]
    pub fn page(self) -> &'static str {
        pages::page(self)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KEDGE-{}-{:04}", self.area().as_str(), self.number())
    }
}

/// A text that is no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an error code of Kedge")]
pub struct UnknownCode(String);

impl FromStr for Code {
    type Err = UnknownCode;

    /// Reads `KEDGE-VIP-0007`; case and the `KEDGE-` prefix do not matter.
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let wanted = text.trim().to_ascii_uppercase();
        let wanted = wanted.strip_prefix("KEDGE-").unwrap_or(&wanted);
        let parsed = wanted.split_once('-').and_then(|(area, number)| {
            let number: u16 = number.parse().ok()?;
            Self::ALL
                .iter()
                .find(|code| code.area().as_str() == area && code.number() == number)
                .copied()
        });
        parsed.ok_or_else(|| UnknownCode(text.escape_debug().take(40).collect()))
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.to_string()
    }
}

impl TryFrom<String> for Code {
    type Error = UnknownCode;

    fn try_from(text: String) -> Result<Self, UnknownCode> {
        text.parse()
    }
}

mod pages {
    //! The pages, embedded by the build script from `docs/errors/`.
    include!(concat!(env!("OUT_DIR"), "/pages.rs"));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_unique_and_reads_back() {
        let mut seen = BTreeSet::new();
        for code in Code::ALL {
            assert!(seen.insert(code.to_string()), "{code} twice");
            assert_eq!(code.to_string().parse(), Ok(*code));
            assert!(
                !RETIRED.contains(&code.to_string().as_str()),
                "{code} was retired"
            );
        }
        assert_eq!("vip-7".parse(), Ok(Code::VipVridInUse));
        assert!("KEDGE-VIP-9999".parse::<Code>().is_err());
    }

    #[test]
    fn every_code_has_a_page_with_its_title_and_the_five_headings() {
        let headings = [
            "## What happened",
            "## Evidence",
            "## Consequence",
            "## What to do",
            "## Background",
        ];
        for code in Code::ALL {
            let page = code.page();
            assert!(
                page.starts_with(&format!("# {code}: {}\n", code.title())),
                "{code}: title"
            );
            let mut rest = page;
            for heading in headings {
                let Some((_, after)) = rest.split_once(heading) else {
                    panic!("{code}: no `{heading}`, or out of order");
                };
                let body = after.split("\n## ").next().unwrap_or_default();
                assert!(body.trim().len() > 20, "{code}: `{heading}` is empty");
                rest = after;
            }
        }
    }
}
