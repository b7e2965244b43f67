//! An Envoy beside the gateway: it is told what to serve over a socket, and may be run from here.
//!
//! ```text
//! offer, who lives ──────► Beside ── render ──► Wanted ◄── ads.sock ──► Envoy
//!                            │  process.rs: its process, if it is ours      │
//!                            └── counters.rs: its counters ◄── admin.sock ──┘
//! ```

mod bootstrap;
mod counters;
mod process;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use kedge_control::{
    frontend::{Frontend, Offer, PoolMember, Protocol},
    local::{ListenerStatus, MemberStatus},
    report::{Unserved, UnservedReason},
};
use kedge_core::{Code, Fix, Problem};
use kedge_gateway_dataplane::UNHEARD;
use kedge_gateway_xds::{
    Ads, Here, Key, Kind, Life, Members, Reason, Refused, Told, Wanted, delta::Outcome, names,
    render,
};
use kedge_host::Root;
use tokio::task::JoinSet;
use tracing::error;

use crate::{
    config::ProxyConfig,
    offered::{OWN, is_own},
    tenants::Namespaces,
};
use bootstrap::Folder;
use counters::Counters;
use process::Process;

/// An Envoy beside the gateway, and what it is told.
pub(crate) struct Beside {
    folder: Folder,
    config: ProxyConfig,
    wanted: Wanted,
    /// The server of its configuration; nothing while it cannot be had. It ends with this.
    serving: JoinSet<()>,
    unserved: Option<Problem>,
    /// Its process, if it is ours.
    process: Option<Process>,
    counters: Counters,
    offer: Offer,
    members: Members,
    here: Here,
    namespaces: Namespaces,
    /// Why each host lives or does not.
    because: BTreeMap<String, String>,
    refused: Vec<Refused>,
    /// What Envoy is told of each site.
    sites: Vec<Told>,
}

impl Beside {
    /// One that is told nothing yet: it goes on serving what it has until [`apply`](Self::apply).
    pub fn new(config: &ProxyConfig, root: &Root) -> Self {
        let folder = Folder::of(&root.run_dir());
        let mut beside = Self {
            counters: Counters::new(folder.admin()),
            process: process(config, root, &folder),
            folder,
            config: config.clone(),
            wanted: Wanted::default(),
            serving: JoinSet::new(),
            unserved: None,
            offer: Offer::default(),
            members: Members::default(),
            here: Here::default(),
            namespaces: Namespaces::default(),
            because: BTreeMap::new(),
            refused: Vec::new(),
            sites: Vec::new(),
        };
        beside.tend();
        beside
    }

    /// Takes another configuration. An Envoy of ours is started anew; another one goes on, and is told
    /// what it was told.
    pub fn configure(&mut self, config: &ProxyConfig, root: &Root) {
        self.config = config.clone();
        self.unserved = self.write().err().map(|problem| *problem);
        self.process = process(config, root, &self.folder);
        self.tend();
    }

    /// Takes where hosts are, for what is told from here on.
    pub fn enclose(&mut self, namespaces: Namespaces) {
        let tenants = namespaces.tenants.iter();
        let shown = |(tenant, path): (&String, &PathBuf)| (tenant.clone(), text(path));
        self.here.namespaces = tenants.map(shown).collect();
        self.namespaces = namespaces;
    }

    /// Checks back ends less often, or as often as they ask for, in what is told from here on.
    pub const fn relax(&mut self, relaxed: bool) {
        self.here.relaxed = relaxed;
    }

    pub fn apply(&mut self, offer: Offer) {
        self.place_own(&offer);
        let rendered = render(&offer, &self.here);
        self.offer = offer;
        self.members = rendered.members;
        self.refused = rendered.refused;
        self.sites = rendered.sites;
        self.wanted.declare(rendered.resources);
    }

    /// Where pools of the gateway itself lead. One that has no members at the moment stays where it was, so
    /// that its connections do.
    fn place_own(&mut self, offer: &Offer) {
        let own = offer.pools.iter().filter(|pool| pool.tenant == OWN);
        let before = std::mem::take(&mut self.here.own);
        for pool in own {
            let path = match pool.members.first() {
                None => before.get(&pool.name).cloned(),
                Some(member) => self.namespaces.hosts.get(&member.host).map(|it| text(it)),
            };
            self.here
                .own
                .extend(path.map(|path| (pool.name.clone(), path)));
        }
    }

    pub fn alive(&mut self, host: &str, alive: bool, because: String) {
        let life = if alive { Life::Alive } else { Life::Dead };
        self.because.insert(host.to_owned(), because);
        if self.here.lives.insert(host.to_owned(), life) != Some(life) {
            self.tell(host);
        }
    }

    pub fn forget(&mut self, host: &str) {
        self.because.remove(host);
        if self.here.lives.remove(host).is_some() {
            self.tell(host);
        }
    }

    fn tell(&self, host: &str) {
        for members in self.members.of_host(&self.here, host) {
            self.wanted.change(members);
        }
    }

    /// Looks after the socket, the process and the counters.
    pub fn tend(&mut self) {
        while self.serving.try_join_next().is_some() {}
        if self.serving.is_empty() || self.unserved.is_some() {
            self.unserved = self.serve().err().map(|problem| *problem);
        }
        if self.unserved.is_none()
            && let Some(process) = &mut self.process
        {
            process.tend();
        }
        self.counters.tend();
    }

    /// Writes what Envoy is started with, and serves the rest.
    fn serve(&mut self) -> Result<(), Box<Problem>> {
        self.write()?;
        if !self.serving.is_empty() {
            return Ok(());
        }
        let ads = Ads::bind(&self.folder.ads(), self.wanted.clone());
        let ads = ads.map_err(|error| untold(&error))?;
        self.serving.spawn(async move {
            if let Err(err) = ads.serve().await {
                let error = &err as &dyn std::error::Error;
                error!(error, "Envoy is told nothing");
            }
        });
        Ok(())
    }

    fn write(&self) -> Result<(), Box<Problem>> {
        let written = self.folder.write(&self.config);
        written.map_err(|error| untold(&error))
    }

    /// What is served, by the order of the offer.
    pub fn status(&self) -> Vec<ListenerStatus> {
        let pools = self.offer.pools.iter();
        let pools: BTreeMap<(&str, &str), &[PoolMember]> = pools
            .map(|pool| ((&*pool.tenant, &*pool.name), &*pool.members))
            .collect();
        let status = |frontend: &Frontend| {
            let at = SocketAddr::new(frontend.address, frontend.port.get());
            let name = names::tcp_listener(at);
            let cluster = names::cluster(&frontend.tenant, &frontend.pool, frontend.client_ip);
            let counted = self.counters.of(&name, &cluster);
            let outcome = self.wanted.outcome(Kind::Listener, &name);
            let members = pools.get(&(&*frontend.tenant, &*frontend.pool));
            let members = members.into_iter().flat_map(|members| members.iter());
            ListenerStatus {
                name: frontend.name.clone(),
                address: frontend.address,
                port: frontend.port.get(),
                bound: matches!(outcome, Some(Outcome::Applied(_))),
                accepted: counted.accepted,
                open: counted.open,
                refused: counted.refused,
                members: members.map(|one| self.member(one)).collect(),
            }
        };
        let frontends = self.offer.frontends.iter();
        let frontends = frontends.filter(|frontend| frontend.protocol == Protocol::Tcp);
        let served = frontends.filter(|frontend| is_own(frontend) || !self.is_refused(frontend));
        served.map(status).collect()
    }

    fn member(&self, member: &PoolMember) -> MemberStatus {
        let because = self.because.get(&member.host);
        MemberStatus {
            host: member.host.clone(),
            address: member.address,
            port: member.port.get(),
            alive: self.here.lives.get(&member.host) == Some(&Life::Alive),
            because: because.map_or_else(|| UNHEARD.to_owned(), Clone::clone),
        }
    }

    /// The tenants' frontends and sites that are not served, and why.
    pub fn unserved(&self) -> Vec<Unserved> {
        let pending: BTreeSet<_> = self.wanted.pending().into_iter().collect();
        let told = |name: &str, (reason, message)| Unserved {
            frontend: name.to_owned(),
            reason,
            message,
        };
        // A tenant's may be called like one of the gateway's own, which are not reported.
        let frontends = self.offer.frontends.iter().filter(|one| !is_own(one));
        let sites = self.offer.sites.iter().map(|site| &*site.name);
        let names = frontends.map(|frontend| &*frontend.name).chain(sites);
        let refused = names.filter_map(|name| {
            let refused = self.refused.iter().find(|one| one.frontend == name)?;
            Some(told(name, reason(&refused.reason)))
        });
        let frontends = self.offer.frontends.iter();
        let frontends =
            frontends.filter(|frontend| !is_own(frontend) && !self.is_refused(frontend));
        let frontends = frontends.filter_map(|frontend| {
            let at = SocketAddr::new(frontend.address, frontend.port.get());
            let cluster = names::cluster(&frontend.tenant, &frontend.pool, frontend.client_ip);
            let keys = [
                (Kind::Cluster, cluster.as_str().into()),
                (Kind::Listener, names::tcp_listener(at).as_str().into()),
            ];
            Some(told(&frontend.name, self.verdict(&keys, &pending)?))
        });
        let sites = self.sites.iter();
        let sites =
            sites.filter_map(|site| Some(told(&site.site, self.verdict(&site.keys, &pending)?)));
        refused.chain(frontends).chain(sites).collect()
    }

    fn is_refused(&self, frontend: &Frontend) -> bool {
        let mut refused = self.refused.iter();
        refused.any(|refused| refused.frontend == frontend.name)
    }

    /// Why what needs these is not served.
    fn verdict(&self, keys: &[Key], pending: &BTreeSet<Key>) -> Option<(UnservedReason, String)> {
        let refused = keys
            .iter()
            .find_map(|(kind, name)| match self.wanted.outcome(*kind, name) {
                Some(Outcome::Refused { detail, .. }) => Some(detail),
                Some(Outcome::Applied(_) | Outcome::Gone) | None => None,
            });
        if let Some(detail) = refused {
            return Some((UnservedReason::EnvoyRefused, detail.trim().to_owned()));
        }
        if keys.iter().any(|key| pending.contains(key)) {
            let text = "Envoy has not taken it yet".to_owned();
            return Some((UnservedReason::Pending, text));
        }
        None
    }

    pub fn problems(&self) -> Vec<Problem> {
        let untold = self.refused.iter().map(|refused| {
            Problem::new(Code::GatewayEnvoyRefused, "Envoy cannot serve a listener")
                .object(format!("listeners/{}", refused.frontend))
                .evidence(refused.reason.to_string())
                .consequence("it serves nobody")
        });
        let refused = self.wanted.refused();
        let refused = refused.into_iter().map(|((kind, name), detail)| {
            Problem::new(
                Code::GatewayEnvoyRefused,
                format!("Envoy refuses the {} {name}", kind.as_str()),
            )
            .object("proxy.engine")
            .evidence(detail.trim())
            .consequence("what Envoy had under this name before goes on being served, everything else as well")
        });
        let process = self.process.as_ref().and_then(Process::problem);
        let absent = process.or_else(|| self.counters.problem());
        let beside = self.unserved.iter().cloned().chain(absent);
        beside.chain(untold).chain(refused).collect()
    }

    /// Whether an Envoy runs here.
    pub fn is_there(&self) -> bool {
        self.counters.is_heard()
    }

    /// Has an Envoy of ours take leave of its clients, and end. Another one goes on as it is.
    pub async fn shutdown(self, limit: Duration) {
        let Self {
            process,
            counters,
            serving: _until_then,
            ..
        } = self;
        if let Some(process) = process {
            counters.drain(limit).await;
            process.end().await;
        }
    }
}

/// What an Envoy beside a gateway starts with.
pub(crate) fn content(config: &ProxyConfig, root: &Root) -> String {
    Folder::of(&root.run_dir()).content(config)
}

/// Writes that where the gateway does.
pub(crate) fn write(config: &ProxyConfig, root: &Root) -> Result<PathBuf, Box<Problem>> {
    let folder = Folder::of(&root.run_dir());
    let written = folder.write(config).map(|()| folder.file());
    written.map_err(|error| untold(&error))
}

/// A reason as it is reported.
fn reason(reason: &Reason) -> (UnservedReason, String) {
    let word = match reason {
        Reason::PortInUse { .. } | Reason::NameInUse { .. } => UnservedReason::PortInUse,
        Reason::Unsupported(_) => UnservedReason::Unsupported,
        Reason::NoPool | Reason::Invalid(_) | Reason::Route { .. } | Reason::Certificate { .. } => {
            UnservedReason::Invalid
        }
    };
    (word, reason.to_string())
}

/// The process that is to run, if it is to be ours.
fn process(config: &ProxyConfig, root: &Root, folder: &Folder) -> Option<Process> {
    let executable = root.locate(config.envoy.as_ref()?);
    Some(Process::new(executable, folder.file()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn untold(error: &dyn std::error::Error) -> Box<Problem> {
    let problem = Problem::new(Code::GatewayNoEnvoy, "Envoy cannot be told anything")
        .object("proxy.engine")
        .caused_by(error)
        .consequence("Envoy serves what it was told last, if anything")
        .fix(Fix::text("see to it that the gateway may write there"));
    Box::new(problem)
}

#[cfg(test)]
mod tests;
