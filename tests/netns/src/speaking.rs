//! A Kedge speaker on a host, in a thread of the test.

use std::{net::IpAddr, ops::Deref, sync::Arc, time::Duration};

use kedge_core::vip::{Priority, RouterState, Vrid};
use kedge_vip_speaker::{Members, Settings, Speaker, VipSnapshot, VipSpec};

use crate::{eventually, lan::Host};

/// A speaker inside a host.
#[derive(Debug)]
pub struct Speaking(Speaker);

impl Speaking {
    /// Starts it with one VIP. It waits half a second at most for the first frame: test LANs are
    /// quiet.
    #[must_use]
    pub fn start(host: &Host, vip: VipSpec) -> Self {
        let settings = Settings {
            link_up_wait: Duration::from_millis(500),
            ..Settings::default()
        };
        Self::start_with(host, settings, vec![vip])
    }

    /// Starts it.
    #[must_use]
    pub fn start_with(host: &Host, settings: Settings, vips: Vec<VipSpec>) -> Self {
        let speaker = host.run(move || Speaker::start(settings).unwrap());
        speaker.apply(vips);
        Self(speaker)
    }

    /// The only VIP, as soon as it is there.
    #[must_use]
    pub fn vip(&self) -> VipSnapshot {
        self.snapshot().first().cloned().expect("one VIP")
    }

    /// Every VIP as it is: the speaker is asked to write everything down first.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Vec<VipSnapshot>> {
        let _ = self.0.refresh().blocking_recv();
        self.written_down()
    }

    /// Every VIP as the speaker wrote it down last, without a word to it if that is recent.
    #[must_use]
    pub fn written_down(&self) -> Arc<Vec<VipSnapshot>> {
        self.0.snapshot()
    }

    /// The state of the only VIP.
    #[must_use]
    pub fn state(&self) -> RouterState {
        let all = self.written_down();
        all.first().map_or(RouterState::Initialize, |vip| vip.state)
    }

    /// Waits for a state and says how long it took.
    pub fn becomes(&self, state: RouterState, limit: Duration) -> Duration {
        eventually(&format!("becomes {state}"), limit, || self.state() == state)
    }

    /// What the only VIP refused, and how often, but for other virtual routers' adverts and claims.
    #[must_use]
    pub fn refused(&self) -> Vec<(String, u64)> {
        let counters = self.vip().counters.into_iter();
        counters
            .filter(|(name, count)| {
                name.starts_with("reject_") && *count > 0 && name != "reject_other_address"
            })
            .collect()
    }

    /// A counter of the only VIP.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.vip().counters.get(name).copied().unwrap_or_default()
    }

    /// Leaves gracefully and says how long it took.
    pub fn leave(self, timeout: Duration) -> Duration {
        let start = std::time::Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(self.0.shutdown(timeout));
        start.elapsed()
    }
}

impl Deref for Speaking {
    type Target = Speaker;

    fn deref(&self) -> &Speaker {
        &self.0
    }
}

/// A VIP at 100 ms with a priority, in a group that may hold other implementations too.
#[must_use]
pub fn vip(vrid: u8, priority: u8, address: &str) -> VipSpec {
    let address: IpAddr = address.parse().unwrap();
    let (vrid, priority) = (Vrid::new(vrid).unwrap(), Priority::new(priority).unwrap());
    VipSpec {
        preempt: true,
        members: Members::Mixed {
            unhealthy: Priority::new(1).unwrap(),
        },
        ..VipSpec::new("api".parse().unwrap(), vec![address], vrid, priority)
    }
}
