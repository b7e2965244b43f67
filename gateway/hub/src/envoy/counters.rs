//! What Envoy has counted, asked for at its administration socket every few seconds.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hyper::Method;
use kedge_core::{Code, Fix, Problem};
use kedge_host::local::call;
use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

/// The counters of an Envoy.
pub(super) struct Counters {
    admin: PathBuf,
    heard: Arc<Mutex<Heard>>,
    asking: Option<JoinHandle<()>>,
    since: Instant,
}

#[derive(Default)]
struct Heard {
    at: Option<Instant>,
    by_name: BTreeMap<String, u64>,
}

/// What was counted for one listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub accepted: u64,
    pub open: u64,
    /// Connections for which no member was fit, and those of clients that are not let in.
    pub refused: u64,
}

impl Counters {
    pub fn new(admin: PathBuf) -> Self {
        Self {
            admin,
            heard: Arc::default(),
            asking: None,
            since: Instant::now(),
        }
    }

    /// Asks again, once it is time.
    pub fn tend(&mut self) {
        let is_asking = self
            .asking
            .as_ref()
            .is_some_and(|asking| !asking.is_finished());
        let age = self.heard().at.map(|at| at.elapsed());
        if is_asking || age.is_some_and(|age| age < EVERY) {
            return;
        }
        let (admin, heard) = (self.admin.clone(), Arc::clone(&self.heard));
        self.asking = Some(tokio::spawn(async move {
            if let Some(by_name) = ask(&admin).await {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.at = Some(Instant::now());
                heard.by_name = by_name;
            }
        }));
    }

    /// What was counted for a listener, and the cluster it leads to.
    pub fn of(&self, listener: &str, cluster: &str) -> Counted {
        let heard = self.heard();
        let of = |name: String| heard.by_name.get(&name).copied().unwrap_or(0);
        let listener = format!("listener.{listener}").replace(':', "_");
        let cluster = format!("cluster.{cluster}").replace(':', "_");
        Counted {
            accepted: of(format!("{listener}.downstream_cx_total")),
            open: of(format!("{listener}.downstream_cx_active")),
            refused: of(format!("{cluster}.upstream_cx_none_healthy"))
                + of(format!("{listener}.no_filter_chain_match")),
        }
    }

    /// Whether somebody answers there.
    pub fn is_heard(&self) -> bool {
        let last = self.heard().at;
        last.is_some_and(|at| at.elapsed() <= LOST)
    }

    /// That nobody answers there.
    pub fn problem(&self) -> Option<Problem> {
        let last = self.heard().at.unwrap_or(self.since);
        (last.elapsed() > LOST).then(|| {
            Problem::new(Code::GatewayNoEnvoy, "no Envoy runs beside the gateway")
                .object("proxy.engine")
                .evidence(format!("nobody answers on {}", self.admin.display()))
                .consequence("no listener serves anybody")
                .fix(Fix::text(
                    "start one with the configuration beside that socket, envoy.json",
                ))
                .fix(Fix::text(
                    "or have the gateway run it: `proxy.envoy` names the executable",
                ))
        })
    }

    /// Has Envoy stop accepting, and waits until nothing is open, for so long at most.
    pub async fn drain(&self, limit: Duration) {
        let drained = async {
            let order = "/drain_listeners?graceful&skip_exit";
            if call(&self.admin, Method::POST, order, Vec::new())
                .await
                .is_err()
            {
                return;
            }
            while let Some(by_name) = ask(&self.admin).await {
                let is_open = |(name, open): (&String, &u64)| {
                    name.ends_with(".downstream_cx_active") && *open > 0
                };
                if !by_name.iter().any(is_open) {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        // What is open still when time is over is closed.
        let _ = timeout(limit, drained).await;
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(admin: &std::path::Path) -> Option<BTreeMap<String, u64>> {
    let answer = timeout(PATIENCE, call(admin, Method::GET, QUESTION, Vec::new())).await;
    let said: Value = answer.ok()?.ok()?.json().ok()?;
    let counter = |stat: &Value| {
        let name = stat.get("name")?.as_str()?.to_owned();
        Some((name, stat.get("value")?.as_u64()?))
    };
    Some(
        said.get("stats")?
            .as_array()?
            .iter()
            .filter_map(counter)
            .collect(),
    )
}

/// The counters that are shown. The parts of the expression must not be encoded differently: Envoy takes it as it is.
const QUESTION: &str = "/stats?format=json&filter=(downstream_cx_total|downstream_cx_active|no_filter_chain_match|upstream_cx_none_healthy)$";
/// Between two questions.
const EVERY: Duration = Duration::from_secs(5);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long nobody may answer before it is said.
const LOST: Duration = Duration::from_secs(15);
/// Between two looks at what is still open.
const LOOK: Duration = Duration::from_millis(50);
