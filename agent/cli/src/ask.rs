//! Commands that ask a running role.

mod approve;
mod bench;
mod bgp;
mod capture;
mod gateway;
mod history;
mod key;
pub(crate) mod lb;
pub(crate) mod net;
mod order;
mod ping;
mod release;
mod restart;
mod rotate;
mod timeline;
mod wait;

use kedge_control::{
    Kind,
    enrol::HostRef,
    identity::Role as Member,
    local::{
        AgentStatus, Approval, BfdSessionList, BoundTo, FleetEndpointList, FleetHostList,
        GatewayStatus, ManagerStatus, PathList, TokenCreated, TokenList, TokenRequest, Tunnel,
        TunnelList, TunnelPath, Vip, VipExplanation, VipList,
    },
};
use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    App,
    args::{
        ApprovalRule, BfdCommand, BgpCommand, DrainArgs, FleetCommand, GatewayOrder, RestartArgs,
        TokenArgs, TokenCommand, TunnelCommand, UndrainArgs, VipCommand,
    },
    client::{Answer, Failure},
    exit::Exit,
    scan,
    show::{self, Show},
};

/// `kedge status`.
///
/// # Errors
///
/// There is nobody to ask.
pub fn status(app: &App, role: Option<Role>) -> Result<Exit, Failure> {
    let client = match role {
        Some(role) => app.client(role),
        None => app.client(first_running(app, &Role::ALL)),
    };
    let raw = client.get_raw("/v1/status")?;
    // Behind a socket given by path any role may answer.
    match raw.get("kind").and_then(Value::as_str) {
        Some(kind) if kind == GatewayStatus::KIND => {
            let answer: Answer<GatewayStatus> = client.understood(raw)?;
            let exit = Exit::of_state(&answer.body.problems);
            show(app, &answer, exit)
        }
        Some(kind) if kind == ManagerStatus::KIND => {
            let answer: Answer<ManagerStatus> = client.understood(raw)?;
            let exit = Exit::of_state(&answer.body.problems);
            show(app, &answer, exit)
        }
        _ => {
            let answer: Answer<AgentStatus> = client.understood(raw)?;
            let of_vips = answer.body.vips.iter().flat_map(|vip| &vip.problems);
            let exit = Exit::of_state(answer.body.problems.iter().chain(of_vips));
            show(app, &answer, exit)
        }
    }
}

/// `kedge vip …`.
///
/// # Errors
///
/// There is nobody to ask, or no such VIP.
pub fn vip(app: &App, command: &VipCommand) -> Result<Exit, Failure> {
    let path =
        |name: &str, rest: &str| Ok::<_, Failure>(format!("/v1/vips/{}{rest}", segment(name)?));
    match command {
        VipCommand::List => get::<VipList>(app, Role::Agent, "/v1/vips"),
        VipCommand::Wait { name } => wait::vips(app, name.as_deref()),
        VipCommand::Show { name } => get::<Vip>(app, Role::Agent, &path(name, "")?),
        VipCommand::Explain { name } => {
            get::<VipExplanation>(app, Role::Agent, &path(name, "/explain")?)
        }
        VipCommand::Release(args) => release::release(app, args),
        VipCommand::Move(args) => order::bring_here(app, args),
        VipCommand::Freeze(args) => order::freeze(app, args),
        VipCommand::Thaw(args) => order::thaw(app, args),
        VipCommand::History(args) => history::show(app, args),
        VipCommand::Timeline(args) => timeline::show(app, args),
        VipCommand::Scan(args) => scan::run(app, args),
    }
}

/// `kedge drain`.
///
/// # Errors
///
/// There is nobody to ask, or the host cannot.
pub fn drain(app: &App, args: &DrainArgs) -> Result<Exit, Failure> {
    order::drain(app, args)
}

/// `kedge undrain`.
///
/// # Errors
///
/// There is nobody to ask.
pub fn undrain(app: &App, args: &UndrainArgs) -> Result<Exit, Failure> {
    order::undrain(app, args)
}

/// `kedge gateway drain` and `kedge gateway undrain`.
///
/// # Errors
///
/// There is nobody to ask.
pub fn gateway(app: &App, order: &GatewayOrder) -> Result<Exit, Failure> {
    gateway::order(app, order)
}

/// `kedge restart`.
///
/// # Errors
///
/// There is nobody to ask, or the executable cannot take the agent's place.
pub fn restart(app: &App, args: &RestartArgs) -> Result<Exit, Failure> {
    restart::run(app, args)
}

/// `kedge bfd …`.
///
/// # Errors
///
/// There is nobody to ask.
pub fn bfd(app: &App, command: BfdCommand) -> Result<Exit, Failure> {
    let role = first_running(app, &[Role::Agent, Role::Gateway]);
    match command {
        BfdCommand::Sessions => get::<BfdSessionList>(app, role, "/v1/bfd/sessions"),
    }
}

/// `kedge bgp …`.
///
/// # Errors
///
/// There is nobody to ask, or no such neighbour.
pub fn bgp(app: &App, command: &BgpCommand) -> Result<Exit, Failure> {
    bgp::run(app, command)
}

/// `kedge tunnel …`: of the agent, or of the gateway where that is the role that runs here.
///
/// # Errors
///
/// There is nobody to ask, or no such peer.
pub fn tunnel(app: &App, command: &TunnelCommand) -> Result<Exit, Failure> {
    let role = first_running(app, &[Role::Agent, Role::Gateway]);
    match command {
        TunnelCommand::List => get::<TunnelList>(app, role, "/v1/tunnels"),
        TunnelCommand::Show { name } => {
            get::<Tunnel>(app, role, &format!("/v1/tunnels/{}", segment(name)?))
        }
        TunnelCommand::Ping(args) => ping::run(app, role, args),
        TunnelCommand::RotateKey(args) => key::rotate(app, role, *args),
        TunnelCommand::Bench(args) => bench::run(app, role, args),
        TunnelCommand::Capture(args) => capture::run(app, role, args),
        TunnelCommand::Path { name: None } => get::<PathList>(app, Role::Agent, "/v1/paths"),
        TunnelCommand::Path { name: Some(name) } => {
            let route = format!("/v1/paths/{}", segment(name)?);
            get::<TunnelPath>(app, Role::Agent, &route)
        }
    }
}

/// `kedge fleet …`.
///
/// # Errors
///
/// There is nobody to ask.
pub fn fleet(app: &App, command: &FleetCommand) -> Result<Exit, Failure> {
    match command {
        FleetCommand::Endpoints => {
            get::<FleetEndpointList>(app, Role::Manager, "/v1/fleet/endpoints")
        }
        FleetCommand::Hosts => get::<FleetHostList>(app, Role::Manager, "/v1/fleet/hosts"),
        FleetCommand::Approve(args) => approve::host(app, args),
        FleetCommand::RotateCa(args) => rotate::authority(app, args),
    }
}

/// `kedge token …`.
///
/// # Errors
///
/// There is nobody to ask, or the manager refuses.
pub fn token(app: &App, command: &TokenCommand) -> Result<Exit, Failure> {
    match command {
        TokenCommand::List => get::<TokenList>(app, Role::Manager, "/v1/tokens"),
        TokenCommand::Create(args) => {
            let request = token_request(args)?;
            let answer: Answer<TokenCreated> =
                app.client(Role::Manager).post("/v1/tokens", &request)?;
            let summary = &answer.body.summary;
            if !app.quiet {
                let uses = match summary.max_uses {
                    1 => "once".to_owned(),
                    many => format!("{many} times"),
                };
                say!(
                    "token {} admits to {} {uses} within {}; it is shown only now",
                    summary.id,
                    summary.scope,
                    args.ttl,
                );
            }
            show(app, &answer, Exit::Ok)
        }
    }
}

fn token_request(args: &TokenArgs) -> Result<TokenRequest, Failure> {
    let role = if args.gateway.is_some() {
        Member::Gateway
    } else {
        Member::Host
    };
    Ok(TokenRequest {
        role,
        tenant: args.tenant.clone(),
        gateway: args.gateway.clone(),
        host_ref: args.host.as_deref().map(host_ref).transpose()?,
        bound_to: BoundTo {
            machine_id: args.machine_id.clone(),
            serial: args.serial.clone(),
            mac: args.mac.clone(),
            hostname_regex: args.hostname.clone(),
        },
        labels: args.labels.iter().cloned().collect(),
        approval: args.approval.map(|rule| match rule {
            ApprovalRule::Auto => Approval::Auto,
            ApprovalRule::Manual => Approval::Manual,
        }),
        ttl_seconds: Some(args.ttl.duration().as_secs()),
        max_uses: Some(args.uses),
    })
}

/// `NAME`, `KIND/NAME` or `KIND.GROUP/NAME`.
fn host_ref(text: &str) -> Result<HostRef, Failure> {
    let (kind, name) = text.split_once('/').unwrap_or((HOST_KIND, text));
    let (kind, group) = kind.split_once('.').unwrap_or((kind, HOST_GROUP));
    if kind.is_empty() || group.is_empty() || name.is_empty() || name.contains('/') {
        return Err(Problem::new(
            Code::SysUsage,
            format!("`{}` is no host", text.escape_debug()),
        )
        .fix(Fix::text(
            "write NAME, KIND/NAME or KIND.GROUP/NAME, such as ElementalHost/edge-a",
        ))
        .into());
    }
    Ok(HostRef {
        api_group: group.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

fn get<T: Show + DeserializeOwned>(app: &App, role: Role, path: &str) -> Result<Exit, Failure> {
    let answer: Answer<T> = app.client(role).get(path)?;
    show(app, &answer, Exit::Ok)
}

pub(crate) fn show<T: Show>(app: &App, answer: &Answer<T>, exit: Exit) -> Result<Exit, Failure> {
    out!("{}", show::render(answer, app.format, &app.view)?);
    Ok(exit)
}

/// The first role whose socket is there; the first of all when none is.
fn first_running(app: &App, roles: &[Role]) -> Role {
    let there = roles.iter().find(|role| app.root.socket(**role).exists());
    *there.or(roles.first()).unwrap_or(&Role::Agent)
}

/// A name as one segment of a path: a gateway's peers have names with a slash.
fn segment(name: &str) -> Result<String, Failure> {
    if name.is_empty() || name == "." || name == ".." || name.chars().any(char::is_control) {
        let what = format!("`{}` is no name", name.escape_debug());
        let fix = Fix::text("use a name from the list").command("kedge status");
        return Err(Problem::new(Code::SysUsage, what).fix(fix).into());
    }
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(segment)
}

const HOST_KIND: &str = kedge_crd::elemental::HOST_KIND;
const HOST_GROUP: &str = kedge_crd::elemental::GROUP;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_shortly_or_in_full() {
        let host = |text: &str| {
            host_ref(text).map(|host| format!("{}.{}/{}", host.kind, host.api_group, host.name))
        };
        let full = format!("{HOST_KIND}.{HOST_GROUP}/edge-a");
        assert_eq!(host("edge-a").unwrap(), full);
        assert_eq!(host("ElementalHost/edge-a").unwrap(), full);
        assert_eq!(
            host("Machine.cluster.x-k8s.io/m").unwrap(),
            "Machine.cluster.x-k8s.io/m"
        );
        for bad in ["", "/", "a/", "/b", "a/b/c", "A./b"] {
            assert_eq!(host(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_path() {
        assert_eq!(segment("gw-0").unwrap(), "gw-0");
        assert_eq!(segment("t/edge-a").unwrap(), "t%2Fedge-a");
        assert_eq!(segment("a?b%2f").unwrap(), "a%3Fb%252f");
        for bad in ["", ".", "..", "a\nb"] {
            assert!(segment(bad).is_err(), "{bad:?}");
        }
    }
}
