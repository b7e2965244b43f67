//! The watches of a cluster: our kinds, Cluster API's, whatever kinds those
//! refer to, and the token Secrets of our own and the tenants' namespaces, nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use kedge_core::{Fix, Problem};
use kedge_crd::{capi, elemental, meta};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, info, warn};

use super::{
    cache::Realm,
    cluster::{Cluster, lock, secrets},
    dial::Seat,
    follow::{Expected, Source, follow},
    kinds::{self, Kind},
    problems::unanswered,
    referred,
};

/// The running watches.
#[derive(Debug)]
pub(super) struct Watches {
    running: BTreeMap<Realm, Running>,
    tasks: JoinSet<()>,
    /// What was looked at, and when.
    looked: Option<(u64, Instant)>,
    /// What was asked for and is not served, and when.
    asked: Option<Vec<(String, String, bool)>>,
    asked_at: Instant,
    troubled: bool,
    /// The kinds that objects refer to or referred to.
    referred: BTreeSet<(String, String)>,
    /// How often the store went back in time when the watches were begun.
    returns: u64,
}

/// A running watch, and what it takes to begin it anew.
struct Running {
    task: AbortHandle,
    source: Source,
    /// Its place at a client that it shares.
    seat: Option<Seat>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.task.fmt(f)
    }
}

impl Watches {
    /// Finds our kinds and Cluster API's and watches them.
    pub async fn start(cluster: &Cluster) -> Result<Self, Problem> {
        let mut watches = Self {
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            looked: None,
            asked: None,
            asked_at: Instant::now(),
            troubled: false,
            referred: BTreeSet::new(),
            returns: 0,
        };
        let told = |error: &kube::Error| unanswered(cluster.name()).caused_by(error);
        let groups = ALL.into_iter().map(|(group, _)| group).collect();
        let mut served = BTreeMap::new();
        for (group, found) in kinds::served(&cluster.inner.client, groups).await {
            served.insert(group, found.map_err(|error| told(&error))?);
        }
        for (group, kind) in ALL {
            let found = served.get(group);
            match found.and_then(|found| kinds::preferred(found, kind)) {
                Some(found) => watches.keep(cluster, group, kind, found),
                None if group == meta::GROUP => {
                    let missing = format!("the cluster serves no {kind} of {group}");
                    let fix = Fix::text("install Kedge's custom resource definitions");
                    return Err(unanswered(cluster.name()).evidence(missing).fix(fix));
                }
                None => debug!(group, kind, "the cluster does not serve the kind"),
            }
        }
        Ok(watches)
    }

    /// Follows what is wanted, for good.
    pub async fn run(&mut self, cluster: &Cluster) {
        // Told by every watch as well, through the planner: here it is enough to look now and then.
        let mut every = tokio::time::interval(LOOK);
        loop {
            every.tick().await;
            self.follow_time(cluster);
            self.look(cluster).await;
        }
    }

    /// Begins every watch anew when the store went back in time.
    fn follow_time(&mut self, cluster: &Cluster) {
        let returns = cluster.inner.leader.returns();
        if returns == self.returns {
            return;
        }
        self.returns = returns;
        for (realm, running) in std::mem::take(&mut self.running) {
            running.task.abort();
            self.watch(cluster, realm, running.source, running.seat);
        }
    }

    /// Begins the watches that objects ask for and ends those nobody asks for; says whether
    /// nothing had to be begun.
    pub async fn look(&mut self, cluster: &Cluster) -> bool {
        let (version, referring, mut namespaces) = {
            let mut cache = cluster.cache();
            let stock = cache.stock_mut();
            let is_same =
                |(last, at): (u64, Instant)| last == stock.version() && at.elapsed() < AGAIN;
            if self.looked.is_some_and(is_same) {
                return true;
            }
            let namespaces: BTreeSet<String> = stock.tenants().cloned().collect();
            (stock.version(), stock.referring(), namespaces)
        };
        self.looked = Some((version, Instant::now()));
        for space in referring {
            self.referred.extend(referred::kinds(&space.open()));
        }
        let mut is_settled = self.find_kinds(cluster).await;
        namespaces.insert(meta::SYSTEM_NAMESPACE.to_owned());
        for namespace in &namespaces {
            let realm = secrets_of(namespace);
            if !self.running.contains_key(&realm) {
                let own = &cluster.inner.client;
                let (client, seat) = cluster.inner.shared.board(own).await;
                let source = Source {
                    client,
                    resource: secrets(),
                    namespace: Some(namespace.clone()),
                    fields: Some(TOKENS),
                };
                self.watch(cluster, realm, source, Some(seat));
                is_settled = false;
            }
        }
        let unwanted = self.running.keys().filter(|realm| {
            let namespace = realm.namespace.as_ref();
            namespace.is_some_and(|namespace| !namespaces.contains(namespace))
        });
        for realm in unwanted.cloned().collect::<Vec<_>>() {
            if let Some(running) = self.running.remove(&realm) {
                running.task.abort();
            }
            cluster.cache().forget(&realm);
            cluster.inner.blind.clear(&realm);
        }
        is_settled
    }

    /// Watches the kinds that are wanted and not watched yet, as soon as the cluster serves them:
    /// they may be installed long after the manager.
    async fn find_kinds(&mut self, cluster: &Cluster) -> bool {
        let mut missing: Vec<(String, String, bool)> = Vec::new();
        {
            let known = lock(&cluster.inner.kinds);
            let is_known =
                |group: &str, kind: &str| known.contains_key(&(group.to_owned(), kind.to_owned()));
            for (group, kind) in ALL {
                if !is_known(group, kind) {
                    missing.push((group.to_owned(), kind.to_owned(), false));
                }
            }
            for (group, kind) in &self.referred {
                if !is_known(group, kind) {
                    missing.push((group.clone(), kind.clone(), true));
                }
            }
        }
        // The same set is asked for again only so often: whoever installs a kind is not in a hurry,
        // and an API server without it need not be asked at every change.
        let asked = Some(missing.clone());
        if missing.is_empty() || (self.asked == asked && self.asked_at.elapsed() < AGAIN) {
            return true;
        }
        self.asked = asked;
        self.asked_at = Instant::now();
        let client = &cluster.inner.client;
        let served: BTreeSet<String> = match client.list_api_groups().await {
            Ok(groups) => groups.groups.into_iter().map(|group| group.name).collect(),
            Err(error) => {
                self.trouble(&error, "the groups of kinds cannot be looked up");
                return true;
            }
        };
        let groups = missing.iter().map(|(group, _, _)| group.as_str());
        let groups = groups.filter(|group| served.contains(*group)).collect();
        let groups = kinds::served(client, groups).await;
        let found = missing.iter().map(async |(group, kind, is_referred)| {
            match groups.get(group)? {
                Ok(group) if *is_referred => kinds::by_contract(client, group, kind).await,
                Ok(group) => Ok(kinds::preferred(group, kind)),
                // Told by the group.
                Err(_) => return None,
            }
            .transpose()
        });
        let found = join_all(found).await;
        for error in groups.values().filter_map(|group| group.as_ref().err()) {
            self.trouble(error, "a group of kinds cannot be looked up");
        }
        let mut is_settled = true;
        for ((group, kind, _), found) in missing.iter().zip(found) {
            match found {
                Some(Ok(found)) => {
                    info!(group, kind, contract = ?found.contract, "a kind is watched");
                    self.keep(cluster, group, kind, found);
                    is_settled = false;
                }
                Some(Err(error)) => self.trouble(&error, "a kind cannot be looked up"),
                None => debug!(group, kind, "the cluster does not serve the kind"),
            }
        }
        self.troubled &= !is_settled;
        is_settled
    }

    /// Tells of trouble with the cluster, once until it works again.
    fn trouble(&mut self, error: &kube::Error, what: &str) {
        if !std::mem::replace(&mut self.troubled, true) {
            let error = error as &dyn std::error::Error;
            warn!(error, what, "kinds are looked for again later");
        }
    }

    fn keep(&mut self, cluster: &Cluster, group: &str, kind: &str, found: Kind) {
        let source = Source {
            client: cluster.inner.client.clone(),
            resource: found.resource.clone(),
            namespace: None,
            fields: None,
        };
        let name = (group.to_owned(), kind.to_owned());
        lock(&cluster.inner.kinds).insert(name, found);
        // Plans look at the contracts of kinds.
        cluster.cache().stock_mut().touch_all();
        self.watch(cluster, Realm::of(group, kind), source, None);
    }

    fn watch(&mut self, cluster: &Cluster, realm: Realm, source: Source, seat: Option<Seat>) {
        let expected = Expected::new(cluster);
        let task = self
            .tasks
            .spawn(follow(expected, realm.clone(), source.clone()));
        let running = Running { task, source, seat };
        self.running.insert(realm, running);
    }
}

fn secrets_of(namespace: &str) -> Realm {
    Realm {
        namespace: Some(namespace.to_owned()),
        ..Realm::of("", "Secret")
    }
}

/// The kinds that are looked for; ours must be there, others' may come later.
pub const ALL: [(&str, &str); 11] = [
    (meta::GROUP, "Tenant"),
    (meta::GROUP, "EdgeHost"),
    (meta::GROUP, "EdgeGateway"),
    (meta::GROUP, "LoadBalancer"),
    (meta::GROUP, "VIPPool"),
    (meta::GROUP, "TCPLoadBalancer"),
    (meta::GROUP, "HTTPLoadBalancer"),
    (capi::GROUP, "Cluster"),
    (capi::GROUP, "Machine"),
    (elemental::GROUP, elemental::HOST_KIND),
    (elemental::GROUP, elemental::MACHINE_KIND),
];
const TOKENS: &str = "type=kedge.dev/enrollment-token";
const LOOK: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_secs(10);
