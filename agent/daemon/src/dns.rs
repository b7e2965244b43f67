//! Names of the load-balancing cluster, asked about through the tunnel: split DNS on its link.

use std::time::Duration;

use kedge_core::{Code, Fix, Problem};
use kedge_host::{
    bus::{Bus, Unanswered},
    resolve,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tracing::info;

use crate::config::DnsConfig;

/// What systemd-resolved was told of the tunnel's link.
#[derive(Debug)]
pub(crate) struct Dns {
    bus: Bus,
    told: Option<(u32, DnsConfig)>,
    outcome: mpsc::Receiver<Result<(), Unanswered>>,
    tell: mpsc::Sender<Result<(), Unanswered>>,
    failed: Option<(Unanswered, Instant)>,
}

impl Dns {
    pub(crate) fn new(bus: Bus) -> Self {
        let (tell, outcome) = mpsc::channel(OUTCOMES);
        Self {
            bus,
            told: None,
            outcome,
            tell,
            failed: None,
        }
    }

    /// Wants these names asked about through the link of that number, while both are there.
    pub(crate) fn want(&mut self, ifindex: Option<u32>, config: Option<&DnsConfig>) {
        let wanted = ifindex.zip(config.cloned());
        let again = self.failed.is_some_and(|(_, at)| at.elapsed() > AGAIN);
        if wanted == self.told && !again {
            return;
        }
        let before = std::mem::replace(&mut self.told, wanted.clone());
        self.failed = None;
        let (bus, tell) = (self.bus.clone(), self.tell.clone());
        tokio::spawn(async move {
            let outcome = match (wanted, before) {
                (Some((link, config)), _) => {
                    let (servers, domains) = (&config.servers, &config.domains);
                    resolve::split(&bus, link, servers, domains).await
                }
                // A link that is gone has taken it along.
                (None, Some((link, _))) => resolve::revert(&bus, link).await.or(Ok(())),
                (None, None) => Ok(()),
            };
            // The agent has ended.
            let _ = tell.send(outcome).await;
        });
    }

    /// How it went. Loses nothing when it is cancelled.
    pub(crate) async fn settled(&mut self) {
        let Some(outcome) = self.outcome.recv().await else {
            return std::future::pending().await;
        };
        self.failed = outcome.err().map(|why| (why, Instant::now()));
        if let (Some((link, config)), None) = (&self.told, self.failed) {
            info!(link, domains = ?config.domains, because = "configured", "names are asked about in the tunnel");
        }
    }

    /// What does not work.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let (why, _) = self.failed?;
        let (_, config) = self.told.as_ref()?;
        let what = "the tunnel's names cannot be asked about through it";
        Some(
            Problem::warning(Code::HostSplitDns, what)
                .object("tunnel.dns")
                .evidence(format!("systemd-resolved: {why}"))
                .consequence(format!(
                    "names below {} are asked about where all others are",
                    config.domains.join(", ")
                ))
                .fix(
                    Fix::text("have systemd-resolved run, or leave `tunnel.dns` out")
                        .command("systemctl enable --now systemd-resolved"),
                ),
        )
    }

    /// Takes it back.
    pub(crate) async fn leave(mut self) {
        if let Some((link, _)) = self.told.take() {
            // A link that goes takes it along in any case.
            let _ = timeout(LEAVE, resolve::revert(&self.bus, link)).await;
        }
    }
}

const OUTCOMES: usize = 4;
/// How soon something that failed is tried again.
const AGAIN: Duration = Duration::from_secs(30);
const LEAVE: Duration = Duration::from_millis(300);
