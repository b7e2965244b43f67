//! What the operator ordered of this host: VIPs that are frozen, and whether it is drained.
//!
//! A freeze is kept with the boot id and ends with the boot; a drain holds until it is taken back.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use kedge_control::local::Frozen;
use kedge_core::{Code, Fix, Instant, Name, Problem};
use kedge_host::{saver::Saver, state::Store, wall};
use serde::{Deserialize, Serialize};

use crate::{boot, desired::Desired};

/// The standing orders, kept on the disk.
pub(crate) struct Orders {
    standing: Standing,
    saver: Saver<Standing>,
    unread: Vec<Problem>,
}

/// What is ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Standing {
    boot_id: String,
    frozen: BTreeMap<Name, Freeze>,
    /// Since when the host is drained, microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drained: Option<u64>,
}

/// One freeze. Its end is a point of the boot's clock, which nobody sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Freeze {
    since_unix_micros: u64,
    until_unix_micros: u64,
    until_boottime_micros: u64,
}

impl Orders {
    /// What an earlier process was told.
    pub fn new(store: Store, boot_id: &str) -> Self {
        let restored = store.load::<Standing>(STATE);
        let standing = restored.value.unwrap_or_default().of_boot(boot_id);
        Self {
            standing,
            saver: Saver::start(store, STATE),
            unread: restored.problems,
        }
    }

    /// Puts the orders into what the speaker is told.
    pub fn mark(&self, desired: &mut Desired) {
        for vip in &mut desired.vips {
            vip.spec.frozen = self.standing.frozen.contains_key(&vip.spec.name);
            vip.spec.drained = self.standing.drained.is_some();
        }
        for vip in &mut desired.anycast {
            vip.leaves = self.standing.drained.is_some();
        }
    }

    /// Freezes a VIP from `now` on; a freeze that holds already gets a new end.
    pub fn freeze(&mut self, name: &Name, now: Instant, wall: SystemTime, span: Duration) {
        let since = self.standing.frozen.get(name);
        let since = since.map_or(unix_micros(wall), |freeze| freeze.since_unix_micros);
        let freeze = Freeze {
            since_unix_micros: since,
            until_unix_micros: unix_micros(wall + span),
            until_boottime_micros: boot_micros(now + span),
        };
        self.standing.frozen.insert(name.clone(), freeze);
        self.save();
    }

    /// Ends a freeze; whether there was one.
    pub fn thaw(&mut self, name: &Name) -> bool {
        let was = self.standing.frozen.remove(name).is_some();
        if was {
            self.save();
        }
        was
    }

    /// Ends what has lasted long enough, and says for which VIPs.
    pub fn expire(&mut self, now: Instant) -> Vec<Name> {
        let over = |freeze: &Freeze| freeze.until_boottime_micros <= boot_micros(now);
        let frozen = self.standing.frozen.iter();
        let ended: Vec<Name> = frozen
            .filter(|(_, freeze)| over(freeze))
            .map(|(name, _)| name.clone())
            .collect();
        if !ended.is_empty() {
            self.standing.frozen.retain(|_, freeze| !over(freeze));
            self.save();
        }
        ended
    }

    /// Whether something ends by itself.
    pub fn expects(&self) -> bool {
        !self.standing.frozen.is_empty()
    }

    /// Drains the host, or lets it take part again.
    pub fn drain(&mut self, since: Option<SystemTime>) {
        self.standing.drained = since.map(unix_micros);
        self.save();
    }

    /// Since when the host is drained.
    pub fn drained_since(&self) -> Option<String> {
        self.standing.drained.map(|at| wall::rfc3339(of_unix(at)))
    }

    /// Since and until when a VIP is frozen.
    pub fn frozen(&self, name: &str) -> Option<Frozen> {
        let freeze = self.standing.frozen.get(name)?;
        Some(Frozen {
            since: wall::rfc3339(of_unix(freeze.since_unix_micros)),
            until: wall::rfc3339(of_unix(freeze.until_unix_micros)),
        })
    }

    /// What people must not overlook, and what is wrong with the disk.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        let drained = self.drained_since().map(|since| drained(&since));
        let disk = self.unread.iter().cloned().chain(self.saver.problem());
        drained.into_iter().chain(disk)
    }

    /// Waits until what was ordered so far is on the disk.
    pub fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.saver.settled()
    }

    /// Has the last orders on the disk.
    pub async fn finish(self) {
        self.saver.finish().await;
    }

    fn save(&self) {
        self.saver.save(self.standing.clone());
    }
}

impl Standing {
    fn of_boot(mut self, boot_id: &str) -> Self {
        if !boot::is_same(&self.boot_id, boot_id) {
            self.frozen.clear();
        }
        boot_id.clone_into(&mut self.boot_id);
        self
    }
}

/// What stands with a frozen VIP.
pub(crate) fn frozen(name: &Name, frozen: &Frozen, pinned: bool) -> Problem {
    let Frozen { since, until } = frozen;
    let consequence = if pinned {
        "it keeps a priority that would be lower, so a host that is better off does not get it"
    } else {
        "neither health nor preemption nor an order moves it here; faults still do"
    };
    Problem::warning(Code::VipFrozen, format!("the VIP {name} is frozen"))
        .object(format!("vips/{name}"))
        .evidence(format!("since {since}, until {until}"))
        .consequence(consequence)
        .fix(Fix::text("end it when the work is done").command(format!("kedge vip thaw {name}")))
}

fn drained(since: &str) -> Problem {
    Problem::warning(Code::VipDrained, "this host is drained")
        .evidence(format!("since {since}"))
        .consequence("it holds a VIP only while no other host does")
        .fix(Fix::text("let it take part again when the work is done").command("kedge undrain"))
}

fn unix_micros(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

fn of_unix(micros: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

const fn boot_micros(at: Instant) -> u64 {
    at.as_nanos() / 1_000
}

const STATE: &str = "orders";

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        "api".parse().unwrap()
    }

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    #[tokio::test]
    async fn a_freeze_outlives_the_agent_and_not_the_boot_and_a_drain_outlives_both() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let wall = of_unix(1_700_000_000_000_000);
        let mut orders = Orders::new(store.clone(), "boot-1");
        orders.freeze(&name(), at(100), wall, Duration::from_secs(60));
        orders.drain(Some(wall));
        orders.finish().await;

        let restarted = Orders::new(store.clone(), "boot-1");
        let frozen = restarted.frozen("api").unwrap();
        assert_eq!(frozen.since, "2023-11-14T22:13:20Z");
        assert_eq!(frozen.until, "2023-11-14T22:14:20Z");
        restarted.finish().await;

        let rebooted = Orders::new(store.clone(), "boot-2");
        assert_eq!(rebooted.frozen("api"), None);
        assert!(rebooted.drained_since().is_some());
        assert_eq!(rebooted.problems().count(), 1);
    }

    #[tokio::test]
    async fn a_freeze_ends_by_the_clock_that_nobody_sets_and_is_prolonged_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let mut orders = Orders::new(Store::new(dir.path()), "boot-1");
        let wall = of_unix(1_700_000_000_000_000);
        orders.freeze(&name(), at(100), wall, Duration::from_secs(60));
        let later = wall + Duration::from_secs(30);
        orders.freeze(&name(), at(130), later, Duration::from_secs(60));
        let since = orders.frozen("api").unwrap().since;
        assert_eq!(since, "2023-11-14T22:13:20Z");
        assert!(orders.expire(at(160)).is_empty());
        assert!(orders.expire(at(189)).is_empty());
        assert_eq!(orders.expire(at(190)), [name()]);
        assert_eq!(orders.frozen("api"), None);
        assert!(!orders.thaw(&name()));
    }

    #[tokio::test]
    async fn a_corrupt_file_is_told_and_nothing_is_ordered() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("orders.json"), "{").unwrap();
        let orders = Orders::new(Store::new(dir.path()), "boot-1");
        let problems: Vec<Problem> = orders.problems().collect();
        assert_eq!(problems[0].code, Code::HostStateCorrupt);
        assert_eq!(orders.drained_since(), None);
    }
}
