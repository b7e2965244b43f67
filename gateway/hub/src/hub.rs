//! The gateway's state, and what changes it.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Instant as Uptime, SystemTime},
};

use kedge_control::{
    agent::GatewayConfig as Wished,
    enrol,
    frontend::Offer,
    identity,
    local::Reloaded,
    report::{GatewayReport, MAX_ITEMS, ReportedPeer},
};
use kedge_core::{Coded as _, Problem};
use kedge_host::{
    Role,
    enrol::{Client, Settings},
    identity::{IdentityKey, facts, label},
    layers::Live,
    link::{Link, Patience, remembered},
    saver::Saver,
    state::Store,
    tunnel_keys::TunnelKeys,
    wall,
};
use kedge_net::clock;
use kedge_tunnel_device::{
    bench::{Benches, Wanted},
    echo::Responder,
    keeper::{Keeper, clear_leftovers},
};
use kedge_tunnel_proto::memory::Memory;
use tracing::{debug, info};

use crate::{
    bounds::{Plan, plan},
    checks::Checks,
    claims::is_neighbor,
    config::GatewayFile,
    drain::Drain,
    fallback::Fallback,
    keys::Keys,
    leaving::Leaving,
    liveness::{Change, Heard, Hosts},
    meeting::Meeting,
    offered::merged,
    places::Places,
    plane::Plane,
    sessions::Sessions,
    tenants::Tenants,
    ways::Ways,
};

/// The gateway.
pub(crate) struct Hub {
    pub live: Live<GatewayFile>,
    pub started: SystemTime,
    pub up_since: Uptime,
    /// What the machine says of itself.
    pub host: enrol::Facts,
    /// By which keys hosts know it.
    pub keys: Keys,
    pub keeper: Keeper,
    /// What was learned of the tunnel's peers.
    pub peers: Saver<Memory>,
    pub plane: Plane,
    pub hosts: Hosts,
    pub plan: Plan,
    pub link: Option<Link<GatewayReport, Wished>>,
    /// The desired state in force.
    wished: Option<Arc<Wished>>,
    pub sessions: Sessions,
    /// What hosts are asked beside that.
    pub checks: Checks,
    /// The order to send hosts elsewhere.
    pub drain: Drain,
    /// What is open to backends that are being left.
    pub leaving: Leaving,
    /// Where the hosts are.
    pub places: Places,
    /// What the ways to them carry.
    pub ways: Ways,
    /// Hosts that call over TLS.
    pub fallback: Fallback,
    /// What hosts are told of each other.
    pub meeting: Meeting,
    /// Tenants that are kept apart.
    pub tenants: Tenants,
    /// What went wrong before the loop.
    standing: Vec<Problem>,
    /// What went wrong when the link was started last.
    link_problems: Vec<Problem>,
    store: Store,
    responder: Option<Answering>,
    benches: Benches,
    echo_problem: Option<Problem>,
}

/// The echo, as long as it is on the right addresses of the right device.
struct Answering {
    on: Vec<IpAddr>,
    opening: u64,
    _responder: Responder,
}

impl Hub {
    /// A hub that serves what the disk remembers.
    ///
    /// # Errors
    ///
    /// There is no WireGuard key, hence no hub.
    pub fn new(live: Live<GatewayFile>) -> Result<Self, Problem> {
        let root = live.root();
        let keys = TunnelKeys::load_or_create(root, Role::Gateway).map_err(|e| e.problem())?;
        let keys = Keys::new(keys)?;
        let (key, next_key) = keys.private()?;
        let store = Store::new(root.state_dir(Role::Gateway));
        let memory = store.load::<Memory>(PEERS);
        let drain = Drain::remembered(&store);
        let mut hub = Self {
            sessions: Sessions::new()?,
            checks: Checks::default(),
            drain,
            leaving: Leaving::default(),
            places: Places::new(),
            ways: Ways::default(),
            fallback: Fallback::default(),
            meeting: Meeting::new(),
            tenants: Tenants::new(root),
            keys,
            keeper: Keeper::new(key, memory.value.unwrap_or_default()),
            peers: Saver::start(store.clone(), PEERS),
            plane: Plane::new(&live.config().proxy, live.root()),
            hosts: Hosts::default(),
            plan: Plan::default(),
            link: None,
            wished: None,
            standing: memory.problems,
            link_problems: Vec::new(),
            started: SystemTime::now(),
            up_since: Uptime::now(),
            responder: None,
            benches: Benches::default(),
            echo_problem: None,
            host: facts(root),
            live,
            store,
        };
        if let (Ok((key, _)), Some(next)) = (hub.keys.private(), next_key) {
            hub.keeper.set_keys(key, Some(next));
        }
        let restored = remembered::<Wished>(&hub.store);
        hub.standing.extend(restored.problems);
        if let Some(wished) = restored.value {
            hub.apply(Arc::new(wished));
        }
        if hub.plan.tunnel.is_none() {
            // Nobody opens the device, so nobody else sees what an earlier process left.
            clear_leftovers(&hub.live.config().tunnel.interface);
        }
        hub.connect();
        Ok(hub)
    }

    /// Starts the link to the configured manager.
    fn connect(&mut self) {
        self.link = None;
        self.link_problems.clear();
        let config = self.live.config();
        let Some(manager) = &config.manager else {
            return;
        };
        let identity = match IdentityKey::load_or_create(self.live.root(), Role::Gateway) {
            Ok(identity) => identity,
            Err(error) => {
                self.link_problems.push(error.problem());
                return;
            }
        };
        let name = config.name.as_ref().map(ToString::to_string);
        let settings = Settings {
            url: manager.url.clone(),
            token_file: manager
                .token_file
                .as_ref()
                .map(|file| self.live.root().locate(file))
                .or_else(kedge_host::credential::token),
            name: name.unwrap_or_else(|| label(&self.host.hostname)),
            role: identity::Role::Gateway,
            host_ref: None,
            facts: self.host.clone(),
            tunnel_key: self.keys.current.to_string(),
        };
        let (client, problems) = Client::open(settings, identity, self.store.clone());
        self.link_problems = problems;
        self.link = Some(Link::start(client, &self.store, Patience::default()));
        self.report();
    }

    /// Takes up a desired state.
    pub fn apply(&mut self, wished: Arc<Wished>) {
        let config = self.live.config();
        let apart = self.tenants.allot(config.tenants.isolation, &wished);
        self.plan = plan(&config.tunnel, &self.keys.current, &wished, &apart);
        let generation = wished.generation;
        self.wished = Some(wished);
        info!(
            generation,
            hosts = self.plan.tunnel.as_ref().map_or(0, |wish| wish.peers.len()),
            listeners = self.plan.listeners.len(),
            frontends = self.plan.offer.frontends.len(),
            left_out = self.plan.problems.len(),
            "desired state in force"
        );
        self.want_tunnel();
        self.tenants.clear();
        self.tell_namespaces();
        self.serve();
        self.answer_echoes();
        self.open_meeting();
        self.answer_calls();
        self.want_sessions();
        self.watch_hosts();
        self.count_left();
        self.report();
    }

    /// Everything that is served.
    pub fn offer(&self) -> Offer {
        merged(&self.plan.listeners, &self.plan.offer)
    }

    /// Has BFD with the hosts there are.
    pub fn want_sessions(&mut self) {
        let drains = self.drain.is_ordered();
        self.sessions.want(&self.plan, drains);
    }

    /// What is due about once a second: whatever failed is tried again.
    pub fn tend(&mut self) {
        self.keeper.tend();
        self.plane.tend();
        self.ask_hosts();
        self.tend_keys();
        self.tell_gateways();
        self.ways.tend(&self.plan, &mut self.keeper);
        if let Some(memory) = self.keeper.learned() {
            self.peers.save(memory.clone());
        }
        self.answer_echoes();
        self.open_meeting();
        self.answer_calls();
        self.count_left();
        self.report();
    }

    /// Has hosts call over TLS where that is configured.
    fn answer_calls(&mut self) {
        let port = self.live.config().tunnel.tls_port;
        let member = self.link.as_ref().map(Link::client);
        let (device, opening) = (self.keeper.device(), self.keeper.openings());
        self.fallback.tend(port, device, opening, member);
    }

    /// Looks who is alive, and tells the data plane.
    pub fn watch_hosts(&mut self) {
        if self.ways.are_due() {
            self.ways.tend(&self.plan, &mut self.keeper);
        }
        let stats = self.keeper.device().map(|device| device.stats());
        let lost = self.sessions.lost();
        let hosts = stats.into_iter().flatten();
        let heard = hosts
            .filter(|peer| !is_neighbor(&peer.name))
            .map(|peer| Heard {
                last: peer.last_authenticated_data,
                lost: lost.get(peer.name.as_str()).copied(),
                name: peer.name,
            });
        let changes = self.hosts.observe(clock::now(), SystemTime::now(), heard);
        let transitions = !changes.is_empty();
        for change in changes {
            match change {
                Change::Host {
                    name,
                    alive,
                    because,
                } => {
                    let to = if alive { "alive" } else { "dead" };
                    info!(host = name, to, because, "host");
                    self.tell_host(&name);
                }
                Change::Gone { name } => {
                    info!(
                        host = name,
                        to = "gone",
                        because = "no peer any more",
                        "host"
                    );
                    self.plane.forget(&name);
                }
            }
        }
        if transitions {
            self.report();
        }
        if !self.plan.neighbors.is_empty() {
            // One of them may have gone, or come.
            self.want_tunnel();
        }
    }

    /// Reads the configuration again. What does not hold leaves the last good one in force.
    ///
    /// # Errors
    ///
    /// The configuration on the disk has an error.
    pub fn reload(&mut self) -> Result<Reloaded, Problem> {
        let change = self.live.reload()?;
        let (old, new) = (&change.before, self.live.config());
        let same = old.manager == new.manager && old.name == new.name;
        let reconnect = !same || self.link.is_none();
        let other_tunnel = old.tunnel != new.tunnel || old.tenants != new.tenants;
        if old.proxy != new.proxy && !self.plane.configure(&new.proxy, self.live.root()) {
            self.plane = Plane::new(&new.proxy, self.live.root());
            let hosts = self.hosts.iter().map(|(name, _)| name.clone());
            for name in hosts.collect::<Vec<_>>() {
                self.tell_host(&name);
            }
            self.tell_namespaces();
            self.serve();
        }
        if reconnect {
            self.connect();
        }
        if other_tunnel && let Some(wished) = self.wished.clone() {
            self.apply(wished);
        }
        Ok(change.told)
    }

    /// Everything that is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        let link = self
            .link
            .as_ref()
            .map(|link| link.standing().borrow().problems.clone());
        let mut problems = self.own_problems();
        problems.extend(link.into_iter().flatten());
        problems
    }

    /// Everything that is wrong beside the link under way, of which the manager knows its own end.
    fn own_problems(&self) -> Vec<Problem> {
        self.live
            .stale()
            .into_iter()
            .chain(&self.standing)
            .chain(&self.link_problems)
            .chain(self.keeper.problem())
            .chain(self.keeper.clamp_problem())
            .chain(&self.echo_problem)
            .chain(self.tenants.problem())
            .chain(self.meeting.problem())
            .chain(self.fallback.problem())
            .chain(&self.plan.problems)
            .cloned()
            .chain(
                self.keeper
                    .device()
                    .and_then(|device| device.device_stats().other_problem),
            )
            .chain(self.key_problem())
            .chain(self.left_problem())
            .chain(self.plane.problems())
            .chain(self.sessions.problems())
            .collect()
    }

    /// The line the service manager shows.
    pub fn line(&self) -> String {
        let alive = self.hosts.iter().filter(|(_, host)| host.alive).count();
        let hosts = self.hosts.iter().count();
        let listeners = self.plane.status();
        let bound = listeners.iter().filter(|listener| listener.bound).count();
        let problems = self.problems().len();
        let manager = match &self.link {
            None => "no manager",
            Some(link) if link.standing().borrow().connected => "manager connected",
            Some(_) => "manager not connected",
        };
        format!(
            "{alive} of {hosts} hosts alive, {bound} of {} listeners bound, {manager}, {problems} problems",
            listeners.len()
        )
    }

    /// The generation of the desired state in force.
    pub fn applied(&self) -> u64 {
        self.wished.as_ref().map_or(0, |wished| wished.generation)
    }

    fn answer_echoes(&mut self) {
        self.tend_tenants();
        let wanted: Vec<IpAddr> = match (self.keeper.device(), &self.plan.tunnel) {
            (Some(_), Some(wish)) => wish.addresses.iter().map(ipnet::IpNet::addr).collect(),
            _ => Vec::new(),
        };
        let opening = self.keeper.openings();
        let tunnel = &self.live.config().tunnel;
        self.benches.tend(Some(Wanted {
            ifname: tunnel.interface.clone(),
            on: wanted.clone(),
            opening,
            mbps: tunnel.bench_mbps,
        }));
        if self
            .responder
            .as_ref()
            .is_some_and(|now| now.on == wanted && now.opening == opening)
        {
            return;
        }
        self.responder = None;
        self.echo_problem = None;
        if wanted.is_empty() {
            return;
        }
        match Responder::start_hearing(&wanted, Some(&self.places.say)) {
            Ok(responder) => {
                self.responder = Some(Answering {
                    on: wanted,
                    opening,
                    _responder: responder,
                });
            }
            Err(error) => {
                debug!(
                    error = &error as &dyn std::error::Error,
                    "echo not answered yet"
                );
                self.echo_problem = Some(error.problem());
            }
        }
    }

    pub fn report(&self) {
        let Some(link) = &self.link else { return };
        let facts = &self.host;
        let peer = |(name, host): (&String, &crate::liveness::Host)| ReportedPeer {
            name: name.clone(),
            alive: host.alive,
            since: wall::rfc3339(host.since),
        };
        link.report(GatewayReport {
            boot_id: facts.boot_id.clone(),
            version: facts.version.clone(),
            applied_generation: self.applied(),
            public_key: self.keys.current.to_string(),
            next_key: self.keys.reported(),
            listen_port: self
                .keeper
                .device()
                .map_or(self.live.config().tunnel.listen_port, |device| {
                    device.device_stats().listen_port
                }),
            peers: self.hosts.iter().map(peer).collect(),
            unserved: Some(self.plane.unserved()),
            draining: Some(self.left()),
            tells_clients_apart: true,
            problems: self.own_problems().into_iter().take(MAX_ITEMS).collect(),
        });
    }
}

/// The name of what is known of the tunnel's peers.
const PEERS: &str = "tunnel-peers";
