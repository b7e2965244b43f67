//! What happened to the VIPs of this host, kept on the disk: changes of state, take-overs stamp by
//! stamp, other Actives that were heard, orders.
//!
//! The loop writes it, from what the speaker tells; the routers' thread knows nothing of disks.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::{Duration, SystemTime},
};

use kedge_control::local::HistoryItem;
use kedge_core::{Instant, Problem, vip::RouterState};
use kedge_host::{saver::Saver, state::Store, wall};
use kedge_vip_speaker::{Takeover, VipEvent};
use serde::{Deserialize, Serialize};

/// The records, oldest first.
pub(crate) struct History {
    boot_id: String,
    records: VecDeque<Record>,
    saver: Saver<VecDeque<Record>>,
    unread: Vec<Problem>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// The VIP; empty for the whole host.
    pub vip: String,
    /// When, by the wall clock.
    pub unix_micros: u64,
    /// The boot's clock at the same time.
    pub boottime_micros: u64,
    pub boot_id: String,
    pub what: What,
}

/// What is recorded. Stamps are microseconds of the boot's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum What {
    /// The router changed its state.
    State {
        from: RouterState,
        to: RouterState,
        because: String,
    },
    /// This host took the VIP over.
    TakenOver {
        before: Option<(IpAddr, u64)>,
        goodbye: Option<u64>,
        interval_micros: u64,
        down_micros: u64,
        due: u64,
        fired: u64,
        advertised: Option<u64>,
        held: Option<u64>,
        announced: Option<u64>,
    },
    /// Another Active was heard first, or said goodbye first.
    Heard { peer: IpAddr, goodbye: bool },
    /// The operator ordered something.
    Ordered { what: String },
}

impl History {
    /// What earlier processes wrote.
    pub fn new(store: Store, boot_id: String) -> Self {
        let restored = store.load::<VecDeque<Record>>(STATE);
        Self {
            boot_id,
            records: restored.value.unwrap_or_default(),
            saver: Saver::start(store, STATE),
            unread: restored.problems,
        }
    }

    /// Takes what the speaker tells.
    pub fn hear(&mut self, event: &VipEvent) {
        let (name, at, boottime, what) = match event {
            VipEvent::State {
                name,
                from,
                to,
                because,
                at,
                boottime,
            } => {
                let (from, to, because) = (*from, *to, because.clone());
                (name, at, boottime, What::State { from, to, because })
            }
            VipEvent::TakenOver {
                name,
                takeover,
                at,
                boottime,
            } => (name, at, boottime, taken_over(takeover)),
            VipEvent::Heard {
                name,
                peer,
                goodbye,
                at,
                boottime,
            } => {
                let (peer, goodbye) = (*peer, *goodbye);
                (name, at, boottime, What::Heard { peer, goodbye })
            }
            VipEvent::Priority { .. } | VipEvent::ProbeNow(_) | VipEvent::Problem { .. } => return,
        };
        self.push(name.as_str(), *at, *boottime, what);
    }

    /// Takes an order; `vip` is empty for one to the whole host.
    pub fn ordered(&mut self, vip: &str, at: SystemTime, boottime: Instant, what: String) {
        self.push(vip, at, boottime, What::Ordered { what });
    }

    /// Changes of state and orders as people read them; of one VIP, with what is about the whole
    /// host, when it is named. `None` when nothing of that name was ever recorded.
    pub fn items(&self, vip: Option<&str>) -> Option<Vec<HistoryItem>> {
        let of = |record: &&Record| vip.is_none_or(|vip| record.vip == vip);
        if vip.is_some() && !self.records.iter().any(|record| of(&record)) {
            return None;
        }
        let told = self
            .records
            .iter()
            .filter(|record| of(record) || record.vip.is_empty());
        Some(told.filter_map(|record| self.item(record)).collect())
    }

    /// The records about one VIP in this boot, oldest first.
    pub fn of_this_boot<'a>(&'a self, vip: &'a str) -> impl Iterator<Item = &'a Record> {
        let records = self.records.iter();
        records.filter(move |record| {
            record.boot_id == self.boot_id && (record.vip == vip || record.vip.is_empty())
        })
    }

    /// The VIP that a host held or stopped holding last.
    pub fn last_moved(&self) -> Option<&str> {
        let moved = |record: &&Record| record.boot_id == self.boot_id && record.is_move();
        let last = self.records.iter().rev().find(moved);
        last.map(|record| record.vip.as_str())
    }

    /// What is wrong with the disk.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.unread.iter().cloned().chain(self.saver.problem())
    }

    /// Has the last records on the disk.
    pub async fn finish(self) {
        self.saver.finish().await;
    }

    fn item(&self, record: &Record) -> Option<HistoryItem> {
        let (from, to, because) = match &record.what {
            What::State { from, to, because } => (Some(*from), Some(*to), because.clone()),
            What::Ordered { what } => (None, None, what.clone()),
            What::TakenOver { .. } | What::Heard { .. } => return None,
        };
        Some(HistoryItem {
            vip: record.vip.clone(),
            at: wall::rfc3339_micros(record.at()),
            boottime_micros: record.boottime_micros,
            this_boot: record.boot_id == self.boot_id,
            from,
            to,
            because,
        })
    }

    fn push(&mut self, vip: &str, at: SystemTime, boottime: Instant, what: What) {
        let since = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.records.push_back(Record {
            vip: vip.to_owned(),
            unix_micros: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            boottime_micros: micros(boottime),
            boot_id: self.boot_id.clone(),
            what,
        });
        if self.records.len() > AT_MOST {
            self.forget_one();
        }
        self.saver.save(self.records.clone());
    }

    /// The oldest record of the VIP with the most: one that moves all the time does not make the
    /// others forgotten.
    fn forget_one(&mut self) {
        let mut counts = BTreeMap::<&str, usize>::new();
        for record in &self.records {
            *counts.entry(&record.vip).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let most = most.map(|(vip, _)| vip.to_owned()).unwrap_or_default();
        let oldest = self.records.iter().position(|record| record.vip == most);
        if let Some(oldest) = oldest {
            self.records.remove(oldest);
        }
    }
}

impl Record {
    /// When, by the wall clock.
    pub fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.unix_micros)
    }

    /// Whether the VIP moved here, from here, or between others.
    pub fn is_move(&self) -> bool {
        match &self.what {
            What::TakenOver { .. } => true,
            What::State { from, .. } => {
                matches!(from, RouterState::Active | RouterState::Releasing)
            }
            What::Heard { goodbye, .. } => !goodbye,
            What::Ordered { .. } => false,
        }
    }
}

fn taken_over(takeover: &Takeover) -> What {
    What::TakenOver {
        before: takeover.before.map(|(peer, at)| (peer, micros(at))),
        goodbye: takeover.goodbye.map(micros),
        interval_micros: whole_micros(takeover.interval),
        down_micros: whole_micros(takeover.down),
        due: micros(takeover.due),
        fired: micros(takeover.fired),
        advertised: takeover.advertised.map(micros),
        held: takeover.held.map(micros),
        announced: takeover.announced.map(micros),
    }
}

const fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1_000
}

fn whole_micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

const STATE: &str = "history";
/// Records that are kept: some hundred bytes each.
const AT_MOST: usize = 1_024;

#[cfg(test)]
mod tests {
    use kedge_core::Code;

    use super::*;

    fn state(vip: &str, millis: u64) -> VipEvent {
        VipEvent::State {
            name: vip.parse().unwrap(),
            from: RouterState::Backup,
            to: RouterState::Active,
            because: "it is so".to_owned(),
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + millis),
            boottime: Instant::from_nanos(millis * 1_000_000),
        }
    }

    #[tokio::test]
    async fn records_outlive_the_agent_and_know_their_boot() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let mut history = History::new(store.clone(), "boot-1".to_owned());
        history.hear(&state("api", 1));
        let wall = SystemTime::UNIX_EPOCH;
        history.ordered("", wall, Instant::ZERO, "drained".to_owned());
        history.finish().await;
        let mut history = History::new(store, "boot-2".to_owned());
        history.hear(&state("web", 2));
        let all = history.items(None).unwrap();
        let told: Vec<_> = all
            .iter()
            .map(|it| (it.vip.as_str(), it.this_boot))
            .collect();
        assert_eq!(told, [("api", false), ("", false), ("web", true)]);
        assert_eq!(all[0].at, "2023-11-14T22:13:20.001000Z");
        assert_eq!(all[1].from, None);
        // What is about the host is about each VIP.
        assert_eq!(history.items(Some("web")).unwrap().len(), 2);
        assert_eq!(history.items(Some("db")), None);
        assert_eq!(history.last_moved(), None, "a first start moves nothing");
    }

    #[tokio::test]
    async fn a_vip_that_moves_all_the_time_does_not_make_the_others_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = History::new(Store::new(dir.path()), "boot-1".to_owned());
        history.hear(&state("api", 0));
        for millis in 0..3_000 {
            history.hear(&state("web", millis));
        }
        assert_eq!(history.records.len(), AT_MOST);
        assert_eq!(history.items(Some("api")).unwrap().len(), 1);
        let web = history.items(Some("web")).unwrap();
        assert_eq!(web.last().unwrap().boottime_micros, 2_999_000);
    }

    #[tokio::test]
    async fn a_corrupt_file_is_told_and_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("history.json"), "no").unwrap();
        let mut history = History::new(Store::new(dir.path()), "boot-1".to_owned());
        let problems: Vec<Problem> = history.problems().collect();
        assert_eq!(problems[0].code, Code::HostStateCorrupt);
        history.hear(&state("api", 1));
        assert_eq!(history.items(None).unwrap().len(), 1);
    }
}
