//! `kedge net check`: the way to each gateway and to the manager, tried from here.

mod steps;
mod verdict;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use kedge_agent_daemon::{AgentConfig, AgentFile};
use kedge_control::local::{NetCheck, NetState, NetStep, NetTarget, Tunnel, TunnelList};
use kedge_core::{Code, Fix, Problem};
use kedge_host::{Role, layers};

use super::{ping::ends, show};
use crate::{
    App,
    args::{NetCheckArgs, NetCommand},
    client::{Answer, Failure},
    exit::Exit,
    show::own,
    style::clean,
};

/// Runs the command.
///
/// # Errors
///
/// Nothing is known that could be tried.
pub fn run(app: &App, command: &NetCommand) -> Result<Exit, Failure> {
    match command {
        NetCommand::Check(args) => check(app, args),
    }
}

fn check(app: &App, args: &NetCheckArgs) -> Result<Exit, Failure> {
    let running: Result<Answer<TunnelList>, Failure> = app.client(Role::Agent).get("/v1/tunnels");
    let running = running.ok().map(|answer| answer.body);
    let loaded = layers::load::<AgentFile>(&app.root, &[]).ok();
    let config = loaded.map(|loaded| loaded.config);
    let mut gateways = gateways(running.as_ref(), config.as_ref());
    let manager = config
        .as_ref()
        .and_then(|config| config.manager.as_ref())
        .map(|manager| format!("{}:{}", bracketed(manager.url.host()), manager.url.port()));
    if !args.names.is_empty() {
        for name in &args.names {
            if !gateways.contains_key(name) {
                return Err(unknown(name, &gateways).into());
            }
        }
        gateways.retain(|name, _| args.names.contains(name));
    }
    let manager = manager.filter(|_| args.names.is_empty());
    if gateways.is_empty() && manager.is_none() {
        return Err(nothing().into());
    }
    let wait = args.wait.duration();
    let told = |name: &str| {
        if !app.quiet {
            say!("trying {}", clean(name));
        }
    };
    let mut items = Vec::new();
    for (name, endpoint) in &gateways {
        told(name);
        let peer = running
            .as_ref()
            .and_then(|list| Some((list, list.items.iter().find(|peer| peer.name == *name)?)));
        items.push(gateway(
            name,
            endpoint.as_deref(),
            peer,
            args.tcp_port,
            wait,
        ));
    }
    if let Some(at) = manager {
        told("manager");
        items.push(of_manager(&at, wait));
    }
    let worst = items.iter().map(|item| item.state).max();
    let exit = match worst.unwrap_or_default() {
        NetState::Skipped | NetState::Ok => Exit::Ok,
        NetState::Warning => Exit::Degraded,
        NetState::Failed => Exit::Critical,
    };
    show(app, &own(&NetCheck { items })?, exit)
}

/// Every peer by name, and where it is: as configured where that is known, else where it was found.
fn gateways(
    running: Option<&TunnelList>,
    config: Option<&AgentConfig>,
) -> BTreeMap<String, Option<String>> {
    let found = running.into_iter().flat_map(|list| &list.items);
    let mut all: BTreeMap<String, Option<String>> = found
        .map(|peer| {
            // Over TLS it is found elsewhere than UDP would find it.
            let fallback = peer.fallback.as_ref().map(|it| it.udp_endpoint.clone());
            (
                peer.name.clone(),
                fallback.or_else(|| peer.endpoint.clone()),
            )
        })
        .collect();
    for (name, peer) in config.into_iter().flat_map(|config| &config.tunnel.peers) {
        let endpoint = peer.endpoint.as_ref().map(ToString::to_string);
        let known = all.entry(name.to_string()).or_default();
        *known = endpoint.or_else(|| known.take());
    }
    all
}

fn gateway(
    name: &str,
    endpoint: Option<&str>,
    peer: Option<(&TunnelList, &Tunnel)>,
    port: u16,
    wait: Duration,
) -> NetTarget {
    let mut steps = Vec::new();
    let address = match endpoint {
        Some(endpoint) => reached(endpoint, wait, &mut steps),
        None => {
            let because = "it has no endpoint: it calls this host";
            steps.push(step("name", NetState::Skipped, because));
            None
        }
    };
    steps.push(match peer {
        Some((list, peer)) => steps::udp(peer, ends(&list.addresses, &peer.allowed_ips)),
        None => step(
            "udp",
            NetState::Skipped,
            "the agent does not run: nobody could ask",
        ),
    });
    if let Some((_, peer)) = peer {
        steps.push(steps::mtu(peer));
    }
    if let Some(address) = address {
        steps.push(steps::tcp(SocketAddr::new(address.ip(), port), wait));
    }
    if let Some((_, peer)) = peer {
        steps.extend(steps::tls(peer, wait));
    }
    verdict::of_gateway(name, endpoint.unwrap_or_default(), steps)
}

fn of_manager(at: &str, wait: Duration) -> NetTarget {
    let mut steps = Vec::new();
    if let Some(address) = reached(at, wait, &mut steps) {
        steps.push(steps::tcp(address, wait));
    }
    verdict::of_manager(at, steps)
}

/// The address of an endpoint that there is a route to.
fn reached(endpoint: &str, wait: Duration, steps: &mut Vec<NetStep>) -> Option<SocketAddr> {
    let (address, looked_up) = steps::name(endpoint, wait);
    steps.push(looked_up);
    let address = address?;
    let route = steps::route(address);
    let there = route.state != NetState::Failed;
    steps.push(route);
    there.then_some(address)
}

fn step(step: &str, state: NetState, because: impl Into<String>) -> NetStep {
    NetStep {
        step: step.to_owned(),
        state,
        because: because.into(),
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn unknown(name: &str, all: &BTreeMap<String, Option<String>>) -> Problem {
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    Problem::new(
        Code::TunUnknown,
        format!("no tunnel peer is called `{}`", name.escape_debug()),
    )
    .evidence(format!("there is {}", names.join(", ")))
    .fix(Fix::text("use a name from the list").command("kedge tunnel list"))
}

fn nothing() -> Problem {
    Problem::new(Code::TunUnknown, "there is nothing to try")
        .evidence("no peer of the tunnel and no manager is configured, and the agent names none")
        .fix(Fix::text("configure a peer or a manager").command("kedge config view"))
}
