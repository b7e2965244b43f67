//! The agent's state, and what changes it. One owner, the loop; nothing here waits for a network
//! or for the speaker.

mod bgp;
mod plan;
mod routes;
mod tunnel;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Instant as Uptime, SystemTime},
};

use kedge_control::{agent::HostConfig, enrol, identity, local::Reloaded, report::HostReport};
use kedge_core::{Coded as _, Name, Problem, vip::RouterState};
use kedge_host::{
    Role,
    bus::Bus,
    enrol::{ByElemental, Client, Settings},
    identity::{IdentityKey, facts, label},
    layers::Live,
    link::{Link, Patience, remembered},
    saver::Saver,
    state::Store,
    tunnel_keys::TunnelKeys,
};
use kedge_tunnel_proto::memory::Memory;
use kedge_vip_speaker::{Speaker, VipEvent, VipSnapshot};
use tracing::{info, warn};

pub(crate) use self::bgp::Announcing;
use crate::{
    api::OnBus,
    bfd::Sessions,
    config::{AgentFile, ManagerConfig},
    desired::{Claimed, Desired},
    dns::Dns,
    facts::Facts,
    health::{GateEvent, Gates},
    history::History,
    orders::Orders,
    peers::Peers,
    power::Power,
    replace::Executable,
    shortcut::Shortcuts,
    tracks::{TrackEvent, Tracks},
    tunnel::{Proxy, Tunnel},
    units::Units,
};

/// The agent.
pub(crate) struct Agent {
    pub live: Live<AgentFile>,
    pub started: SystemTime,
    pub up_since: Uptime,
    /// What the host says of itself.
    pub host: enrol::Facts,
    pub facts: Facts,
    pub manager: Option<Arc<HostConfig>>,
    pub desired: Desired,
    pub speaker: Speaker,
    pub gates: Gates,
    pub tracks: Tracks,
    pub bfd: Sessions,
    pub announcing: Announcing,
    pub tunnel: Option<Tunnel>,
    pub shortcuts: Shortcuts,
    pub link: Option<Link<HostReport, HostConfig>>,
    /// What went wrong before the loop.
    pub standing: Vec<Problem>,
    /// The tunnel's keys, as the disk has them.
    pub keys: Option<TunnelKeys>,
    /// Why the tunnel has no key.
    pub key_problem: Option<Problem>,
    /// What went wrong when the link was started last.
    pub link_problems: Vec<Problem>,
    pub claims: Claims,
    pub orders: Orders,
    pub peers: Peers,
    pub power: Power,
    pub units: Units,
    pub on_bus: OnBus,
    pub dns: Dns,
    pub history: History,
    /// The program of this process, where it can be named.
    pub executable: Option<Executable>,
    /// What is to take the place of this agent.
    pub replaced_by: Option<PathBuf>,
    store: Store,
    /// What was learned of the tunnel's peers.
    pub tunnel_peers: Saver<Memory>,
    /// How often it changed the gateway that packets go through.
    pub epochs: Saver<u64>,
    /// Whether it has given back what only its start needed.
    settled: bool,
    /// Verdicts are said again when a command was lost.
    refused_commands: u64,
}

/// The VIPs this host has held, kept on the disk.
pub(crate) struct Claims {
    /// As it was at the start: a VIP must not change under way.
    at_start: Claimed,
    now: Claimed,
    pub saver: Saver<Claimed>,
}

impl Agent {
    /// An agent that does what its configuration and the disk say.
    pub fn new(live: Live<AgentFile>, speaker: Speaker, bfd: Sessions, network: Facts) -> Self {
        let root = live.root().clone();
        let store = Store::new(root.state_dir(Role::Agent));
        let claimed = store.load::<Claimed>(CLAIMS);
        let (host, bus) = (facts(&root), Bus::of(&root));
        let orders = Orders::new(store.clone(), &host.boot_id);
        let drained = orders.drained_since().is_some();
        let mut agent = Self {
            gates: Gates::new(root, store.clone(), host.boot_id.clone()),
            tracks: Tracks::new(store.clone(), host.boot_id.clone()).over(bus.clone()),
            orders,
            peers: Peers::new(),
            power: Power::new(bus.clone()),
            on_bus: OnBus::new(bus.clone()),
            dns: Dns::new(bus.clone()),
            units: Units::new(bus, drained),
            history: History::new(store.clone(), host.boot_id.clone()),
            claims: Claims {
                at_start: claimed.value.clone().unwrap_or_default(),
                now: claimed.value.unwrap_or_default(),
                saver: Saver::start(store.clone(), CLAIMS),
            },
            standing: claimed.problems,
            keys: None,
            key_problem: None,
            link_problems: Vec::new(),
            started: SystemTime::now(),
            up_since: Uptime::now(),
            manager: None,
            desired: Desired::default(),
            tunnel: None,
            shortcuts: Shortcuts::new(),
            tunnel_peers: Saver::start(store.clone(), TUNNEL_PEERS),
            epochs: Saver::start(store.clone(), EPOCH),
            link: None,
            settled: false,
            executable: None,
            replaced_by: None,
            refused_commands: 0,
            live,
            facts: network,
            host,
            speaker,
            bfd,
            announcing: Announcing::new(),
            store,
        };
        // Before anything slow: the VIPs of the last desired state, whether the manager answers
        // or not.
        agent.recall();
        agent.want_bfd();
        agent.reconfigure("start");
        if agent.desired.vips.is_empty() {
            // Otherwise said by the plan: from now on it is known what an earlier process left.
            agent.speaker.apply(Vec::new());
        }
        if agent.desired.tunnel.is_none() {
            // Nobody opens the device, so nobody else sees what an earlier process left.
            kedge_tunnel_device::keeper::clear_leftovers(&agent.live.config().tunnel.interface);
        }
        agent.connect();
        agent.link_peers();
        agent
    }

    /// A configured manager's last word holds until its next; without a manager there is none.
    fn recall(&mut self) {
        if self.live.config().manager.is_none() {
            self.manager = None;
        } else if self.manager.is_none() {
            let restored = remembered::<HostConfig>(&self.store);
            self.standing.extend(restored.problems);
            self.manager = restored.value.map(Arc::new);
        }
    }

    /// Starts the link to the configured manager.
    fn connect(&mut self) {
        self.link = None;
        self.link_problems.clear();
        self.units.want(self.live.config().manager.is_some());
        let Some(manager) = self.live.config().manager.clone() else {
            return;
        };
        match self.client(manager) {
            Ok((client, problems)) => {
                self.link_problems = problems;
                self.link = Some(Link::start(client, &self.store, Patience::default()));
                self.report();
            }
            Err(problem) => {
                goes_on_without(&problem);
                self.link_problems.push(problem);
            }
        }
    }

    /// A client of the manager, and what of its state cannot be read.
    fn client(&mut self, manager: ManagerConfig) -> Result<(Client, Vec<Problem>), Problem> {
        let (key, _) = self.tunnel_keys()?;
        let tunnel_key = key.public().to_string();
        let identity = IdentityKey::load_or_create(self.live.root(), Role::Agent)
            .map_err(|error| error.problem())?;
        let settings = Settings {
            url: manager.url,
            token_file: manager
                .token_file
                .map(|file| self.live.root().locate(&file))
                .or_else(kedge_host::credential::token),
            name: self.node_name(),
            role: identity::Role::Host,
            host_ref: manager.host_ref,
            facts: self.host.clone(),
            tunnel_key,
        };
        let elemental = manager.ca_pin.map(|ca_pin| ByElemental {
            root: self.live.root().clone(),
            ca_pin,
        });
        let store = self.store.clone();
        Ok(Client::open_with(settings, elemental, identity, store))
    }

    /// The host's name: configured, or the first label of the kernel's.
    pub fn node_name(&self) -> String {
        match &self.live.config().node_name {
            Some(name) => name.to_string(),
            None => label(&self.host.hostname),
        }
    }

    /// The host's name as people know it: configured, or the kernel's in full.
    pub fn hostname(&self) -> &str {
        let configured = self.live.config().node_name.as_ref();
        configured.map_or(&self.host.hostname, Name::as_str)
    }

    /// Takes up what the manager wants.
    pub fn follow(&mut self, manager: Arc<HostConfig>) {
        let generation = manager.generation;
        self.manager = Some(manager);
        self.replan("the manager");
        info!(
            generation,
            vips = self.desired.vips.len(),
            problems = self.desired.problems.len(),
            "desired state in force"
        );
        self.report();
    }

    /// Takes what the kernel's network looks like.
    pub fn observe(&mut self, facts: Facts) {
        self.facts = facts;
        self.replan("the kernel's network");
        self.observe_standing();
        self.want_dns();
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.ask();
        }
        self.report();
    }

    /// Takes what a health gate has to say: to the speaker, which acts on it, and to the manager,
    /// which tells.
    pub fn judge(&mut self, events: Vec<GateEvent>) {
        if events
            .iter()
            .any(|event| matches!(event, GateEvent::Verdict { .. }))
        {
            self.report();
        }
        for event in events {
            match event {
                GateEvent::Verdict {
                    vip,
                    verdict,
                    because,
                } => {
                    if !self.judge_anycast(&vip, verdict, &because) {
                        self.speaker.health(&vip, verdict, because);
                    }
                }
                GateEvent::Fresh { vip, healthy } => self.speaker.probed(&vip, healthy),
            }
        }
    }

    /// Takes what is tracked, to the speaker, which acts on it.
    pub fn heed(&mut self, events: Vec<TrackEvent>) {
        for TrackEvent { vip, told } in events {
            if !self.heed_anycast(&vip, &told) {
                self.speaker.tracks(&vip, told);
            }
        }
    }

    /// Takes what the speaker has to say.
    pub fn hear(&mut self, event: &VipEvent) {
        self.history.hear(event);
        match event {
            VipEvent::ProbeNow(vip) => self.gates.probe_now(vip),
            VipEvent::State { name, to, .. } => {
                self.moved(name, *to);
                self.power.moved(name, *to);
                if *to == RouterState::Active {
                    self.note_claim(name);
                }
                self.report();
            }
            VipEvent::Priority { .. }
            | VipEvent::Problem { .. }
            | VipEvent::TakenOver { .. }
            | VipEvent::Heard { .. } => {}
        }
    }

    /// Whether nothing is wrong or under way that no event will tell about.
    pub fn is_calm(&self) -> bool {
        let nobody_else = self.tunnel.is_none() && self.link.is_none() && !self.peers.are_wanted();
        let is_started = self.up_since.elapsed() > SETTLED;
        nobody_else && is_started && !self.orders.expects() && self.problems().is_empty()
    }

    /// Gives back what only its start needed, and once it is calm what it looked after a moment ago: its
    /// memory is locked, and most of the text it ever touches it touches once a minute.
    pub fn settle(&mut self) {
        let is_started = self.up_since.elapsed() > SETTLED;
        if is_started && (!self.settled || self.is_calm()) {
            self.settled = true;
            kedge_net::memory::forget_start();
        }
    }

    /// What no event tells: whatever failed is tried again.
    pub fn tend(&mut self) {
        self.steer();
        if let Some(tunnel) = &mut self.tunnel {
            let proxy = Proxy::of(&self.live.config().tunnel, self.live.root());
            tunnel.show(self.link.as_ref().map(Link::client), proxy);
            tunnel.tend();
            if let Some(memory) = tunnel.learned() {
                self.tunnel_peers.save(memory.clone());
            }
        }
        self.watch_tunnel();
        self.tend_keys();
        self.want_dns();
        self.bfd.tend();
        self.tend_bgp();
        self.end_freezes();
        self.stop_drained_units();
        if self.peers.have_failed() {
            self.link_peers();
        } else {
            self.call_peers();
        }
        let refused = self.speaker.refused_commands();
        if refused != self.refused_commands {
            self.refused_commands = refused;
            self.say_again();
        }
        self.report();
    }

    /// Reads the configuration again. What does not hold leaves the last good one in force.
    ///
    /// # Errors
    ///
    /// The configuration on the disk has an error.
    pub fn reload(&mut self) -> Result<Reloaded, Problem> {
        let change = self.live.reload()?;
        self.host = facts(self.live.root());
        let (old, new) = (&change.before, self.live.config());
        let same = old.manager == new.manager && old.node_name == new.node_name;
        let reconnect = !same || self.link.is_none();
        self.recall();
        self.link_peers();
        self.want_bfd();
        self.power.retry();
        self.reconfigure("the configuration");
        if self.tunnel.is_none() {
            self.want_tunnel();
        }
        if reconnect {
            self.connect();
        }
        self.report();
        Ok(change.told)
    }

    /// The VIP of that name, as the speaker knows it.
    pub fn snapshot(&self, name: &str) -> Option<VipSnapshot> {
        let vips = self.speaker.snapshot();
        vips.iter().find(|vip| vip.name.as_str() == name).cloned()
    }

    /// The generation of the manager's desired state in force.
    pub fn applied(&self) -> u64 {
        self.manager
            .as_ref()
            .map_or(0, |manager| manager.generation)
    }

    fn note_claim(&mut self, name: &Name) {
        let Some(vip) = self.snapshot(name.as_str()) else {
            return;
        };
        if let Some(interface) = vip.interface
            && self.claims.now.insert((interface.name, vip.vrid))
        {
            self.claims.saver.save(self.claims.now.clone());
        }
    }
}

fn goes_on_without(problem: &Problem) {
    warn!(KEDGE_CODE = %problem.code, what = problem.what, "the agent goes on without");
}

/// When an agent has done what it does once.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(10);
const CLAIMS: &str = "claims";
const TUNNEL_PEERS: &str = "tunnel-peers";
const EPOCH: &str = "gateway-epoch";
