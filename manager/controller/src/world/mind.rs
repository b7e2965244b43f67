//! Looks after the certificate authority and the time.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant as TokioInstant, sleep};
use tracing::warn;

use super::{TICK, World};
use crate::pki::authority::OVERLAP;

impl World {
    /// Keeps up with the certificate authority, for good: hears of a rotation by another manager,
    /// ends its overlap, and begins one in time. Learns what time it must be from what was issued.
    pub async fn mind_authority(self: Arc<Self>) {
        let (mut bundle, mut looked) = (self.authority.bundle(), None);
        loop {
            let (led, now) = (self.store.leads(), TokioInstant::now());
            let is_due = |(last, at): (bool, TokioInstant)| last != led || now >= at + MIND;
            if looked.is_none_or(is_due) {
                looked = Some((led, now));
                self.learn_time().await;
                let mut done = self.authority.refresh(&self.store).await.map(drop);
                if done.is_ok() && led && self.authority.is_aging() {
                    let rotated = self.authority.rotate(&self.store, OVERLAP).await;
                    done = rotated.map(drop);
                }
                if let Err(problem) = done {
                    let what = "the certificate authority is not looked after";
                    warn!(KEDGE_CODE = %problem.code, %problem, "{what}");
                }
            }
            let in_force = self.authority.bundle();
            if in_force != bundle {
                bundle = in_force;
                self.state().await.is_all_due = true;
                self.touch();
            }
            sleep(TICK).await;
        }
    }

    /// Takes the newest certificate's moment for one that has been.
    pub(super) async fn learn_time(&self) {
        let newest = self.state().await.newest;
        let Some(newest) = newest else { return };
        if self.clock.raise(newest.into()) && !self.is_late.swap(true, Ordering::Relaxed) {
            warn!(
                %newest,
                "the clock is behind the newest certificate: that one's time is used until it is right"
            );
        }
    }
}

/// How often the certificate authority is looked after.
const MIND: Duration = Duration::from_secs(10);
