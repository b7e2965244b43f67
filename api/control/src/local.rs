//! The local control sockets, `/run/kedge/{agent,gateway,manager}.sock`: HTTP and JSON.
//!
//! | socket | route | answer |
//! |---|---|---|
//! | agent | `GET /v1/status` | [`AgentStatus`] |
//! | agent | `GET /v1/vips` | [`VipList`] |
//! | agent | `GET /v1/vips/{name}` | [`Vip`] |
//! | agent | `GET /v1/vips/{name}/explain` | [`VipExplanation`] |
//! | agent, gateway | `GET /v1/bfd/sessions` | [`BfdSessionList`] |
//! | agent | `GET /v1/bgp/neighbors` | [`BgpNeighborList`] |
//! | agent | `GET /v1/bgp/neighbors/{name}` | [`BgpNeighbor`] |
//! | agent | `GET /v1/bgp/routes/{advertised,received}`, and of one neighbour below its name | [`BgpRouteList`] |
//! | agent | `GET /v1/bgp/explain/{prefix}` | [`BgpExplanation`] |
//! | agent | `GET /v1/history`, `GET /v1/vips/{name}/history` | [`History`] |
//! | agent | `GET /v1/timeline`, `GET /v1/vips/{name}/timeline` | [`Timeline`] |
//! | agent | `POST /v1/vips/{name}/{release,move,freeze,thaw}` (root) | [`OrderRequest`] → [`VipOrder`] |
//! | agent | `POST /v1/{drain,undrain}` (root) | [`OrderRequest`] → [`DrainOrder`] |
//! | agent | `POST /v1/restart` (root) | [`OrderRequest`] → [`Restart`] |
//! | agent | `GET /v1/paths` | [`PathList`] |
//! | agent | `GET /v1/paths/{name}` | [`TunnelPath`] |
//! | agent, gateway | `GET /v1/tunnels` | [`TunnelList`] |
//! | agent, gateway | `GET`, `POST /v1/tunnel/key` | [`TunnelKey`] |
//! | agent, gateway | `GET /v1/tunnels/{name}` | [`Tunnel`] |
//! | agent, gateway, manager | `GET /v1/config` | [`ConfigInForce`] |
//! | agent, gateway | `POST /v1/reload` (root) | [`Reloaded`] |
//! | gateway | `GET /v1/status` | [`GatewayStatus`] |
//! | gateway | `GET /v1/drain`, `POST /v1/drain` and `/v1/undrain` (root) | [`GatewayDrain`] |
//! | manager | `GET /v1/status` | [`ManagerStatus`] |
//! | manager | `GET /v1/fleet/endpoints` | [`FleetEndpointList`] |
//! | manager | `GET /v1/fleet/hosts` | [`FleetHostList`] |
//! | manager | `GET /v1/fleet/loadbalancers` | [`FleetLoadBalancerList`] |
//! | manager | `POST /v1/fleet/approvals` (root) | [`ApprovalRequest`] → [`HostApproval`] |
//! | manager | `POST /v1/fleet/authority` (root) | [`RotationRequest`] → [`AuthorityRotation`] |
//! | manager | `GET /v1/tokens` (root) | [`TokenList`] |
//! | manager | `POST /v1/tokens` (root) | [`TokenRequest`] → [`TokenCreated`] |
//!
//! Every answer is a [`Document`](crate::Document); an error is a `Document<Problem>` with the
//! matching HTTP status.

mod approval;
mod authority;
mod balancing;
mod bench;
mod bfd;
mod bgp;
mod capture;
mod config;
mod doctor;
mod fleet;
mod history;
mod net;
mod order;
mod path;
mod ping;
mod restart;
mod scan;
mod services;
mod status;
mod timeline;
mod token;
mod tunnel;
mod uninstall;
mod upgrade;
mod vip;

pub use approval::{ApprovalRequest, HostApproval};
pub use authority::{AuthorityRotation, RotationRequest};
pub use balancing::{FleetBackend, FleetLoadBalancer, FleetLoadBalancerList, FleetPort};
pub use bench::{BenchDirection, BenchItem, TunnelBench};
pub use bfd::{BfdRemote, BfdSession, BfdSessionList};
pub use bgp::{
    AnycastVip, BgpExplanation, BgpMode, BgpNeighbor, BgpNeighborList, BgpReceived, BgpRoute,
    BgpRouteList, BgpTold,
};
pub use capture::TunnelCapture;
pub use config::{ConfigInForce, Origin, Reloaded};
pub use doctor::{HostCheck, HostItem};
pub use fleet::{
    FleetCondition, FleetEndpoint, FleetEndpointList, FleetHost, FleetHostList, ManagerStatus,
};
pub use history::{History, HistoryItem};
pub use net::{NetCheck, NetState, NetStep, NetTarget};
pub use order::{DrainOrder, Order, OrderOutcome, OrderRequest, VipOrder};
pub use path::{PathList, TunnelPath};
pub use ping::{PingItem, RoundTrips, TunnelPing};
pub use restart::{Restart, RestartOutcome};
pub use scan::{ScannedRouter, VridScan, VridUse};
pub use services::{
    ClusterAgent, OfferedIngress, OfferedIngressList, OfferedRoute, OfferedRouteList,
    OfferedService, OfferedServiceList,
};
pub use status::{
    AgentStatus, Ending, GatewayDrain, GatewayStatus, HealthStatus, Inhibitor, ListenerStatus,
    ManagerLink, MemberStatus, PeerLink, RoleInfo, ShortcutState, ShortcutStatus, TenantStatus,
};
pub use timeline::{Stamp, Timeline, TimelineItem};
pub use token::{Approval, BoundTo, TokenCreated, TokenList, TokenRequest, TokenSummary};
pub use tunnel::{
    DataPlane, EchoStatus, Fallback, GatewayUse, HandshakeGuard, OffloadPart, PathMtu, Tunnel,
    TunnelKey, TunnelList, TunnelState, Workers,
};
pub use uninstall::{Uninstalled, UninstalledObject};
pub use upgrade::{PackageForm, Upgrade, UpgradeOutcome};
pub use vip::{
    ActivePeer, Frozen, RejectedInterface, TrackStatus, Transition, Vip, VipExplanation, VipList,
};

crate::document::kinds! {
    AgentStatus => "AgentStatus",
    GatewayStatus => "GatewayStatus",
    ManagerStatus => "ManagerStatus",
    ConfigInForce => "Config",
    Reloaded => "Reloaded",
    FleetEndpointList => "FleetEndpointList",
    FleetHostList => "FleetHostList",
    FleetLoadBalancer => "FleetLoadBalancer",
    FleetLoadBalancerList => "FleetLoadBalancerList",
    HostApproval => "HostApproval",
    AuthorityRotation => "AuthorityRotation",
    TokenCreated => "Token",
    TokenList => "TokenList",
    TunnelList => "TunnelList",
    TunnelKey => "TunnelKey",
    Tunnel => "Tunnel",
    TunnelPing => "TunnelPing",
    TunnelCapture => "TunnelCapture",
    TunnelBench => "TunnelBench",
    NetCheck => "NetCheck",
    HostCheck => "HostCheck",
    PathList => "TunnelPathList",
    TunnelPath => "TunnelPath",
    Uninstalled => "Uninstalled",
    OfferedServiceList => "OfferedServiceList",
    OfferedIngressList => "OfferedIngressList",
    OfferedRouteList => "OfferedRouteList",
    ClusterAgent => "ClusterAgent",
    VipList => "VIPList",
    Vip => "VIP",
    VipExplanation => "VIPExplanation",
    History => "History",
    Timeline => "Timeline",
    VipOrder => "VIPOrder",
    DrainOrder => "DrainOrder",
    GatewayDrain => "GatewayDrain",
    Restart => "Restart",
    Upgrade => "Upgrade",
    VridScan => "VRIDScan",
    BfdSessionList => "BFDSessionList",
    BgpNeighborList => "BGPNeighborList",
    BgpNeighbor => "BGPNeighbor",
    BgpRouteList => "BGPRouteList",
    BgpExplanation => "BGPExplanation",
}
