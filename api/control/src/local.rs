//! The local control sockets, `/run/kedge/{agent,gateway,manager}.sock`: HTTP and JSON.
//!
//! | socket | route | answer |
//! |---|---|---|
//! | agent | `GET /v1/status` | [`AgentStatus`] |
//! | agent | `GET /v1/vips` | [`VipList`] |
//! | agent | `GET /v1/vips/{name}` | [`Vip`] |
//! | agent | `GET /v1/vips/{name}/explain` | [`VipExplanation`] |
//! | agent, gateway | `GET /v1/tunnels` | [`TunnelList`] |
//! | agent, gateway | `GET /v1/tunnels/{name}` | [`Tunnel`] |
//! | agent, gateway, manager | `GET /v1/config` | [`ConfigInForce`] |
//! | agent, gateway | `POST /v1/reload` (root) | [`Reloaded`] |
//! | gateway | `GET /v1/status` | [`GatewayStatus`] |
//! | manager | `GET /v1/status` | [`ManagerStatus`] |
//! | manager | `GET /v1/fleet/endpoints` | [`FleetEndpointList`] |
//! | manager | `GET /v1/fleet/hosts` | [`FleetHostList`] |
//! | manager | `POST /v1/fleet/approvals` (root) | [`ApprovalRequest`] → [`HostApproval`] |
//! | manager | `POST /v1/fleet/authority` (root) | [`RotationRequest`] → [`AuthorityRotation`] |
//! | manager | `GET /v1/tokens` (root) | [`TokenList`] |
//! | manager | `POST /v1/tokens` (root) | [`TokenRequest`] → [`TokenCreated`] |
//!
//! Every answer is a [`Document`](crate::Document); an error is a `Document<Problem>` with the
//! matching HTTP status.

mod approval;
mod authority;
mod config;
mod fleet;
mod status;
mod token;
mod tunnel;
mod uninstall;
mod vip;

pub use approval::{ApprovalRequest, HostApproval};
pub use authority::{AuthorityRotation, RotationRequest};
pub use config::{ConfigInForce, Origin, Reloaded};
pub use fleet::{
    FleetCondition, FleetEndpoint, FleetEndpointList, FleetHost, FleetHostList, ManagerStatus,
};
pub use status::{
    AgentStatus, GatewayStatus, HealthStatus, ListenerStatus, ManagerLink, MemberStatus, RoleInfo,
};
pub use token::{Approval, BoundTo, TokenCreated, TokenList, TokenRequest, TokenSummary};
pub use tunnel::{EchoStatus, Tunnel, TunnelList, TunnelState};
pub use uninstall::{Uninstalled, UninstalledObject};
pub use vip::{ActivePeer, RejectedInterface, Transition, Vip, VipExplanation, VipList};

crate::document::kinds! {
    AgentStatus => "AgentStatus",
    GatewayStatus => "GatewayStatus",
    ManagerStatus => "ManagerStatus",
    ConfigInForce => "Config",
    Reloaded => "Reloaded",
    FleetEndpointList => "FleetEndpointList",
    FleetHostList => "FleetHostList",
    HostApproval => "HostApproval",
    AuthorityRotation => "AuthorityRotation",
    TokenCreated => "Token",
    TokenList => "TokenList",
    TunnelList => "TunnelList",
    Tunnel => "Tunnel",
    Uninstalled => "Uninstalled",
    VipList => "VIPList",
    Vip => "VIP",
    VipExplanation => "VIPExplanation",
}
