//! An interface that is without its own address for a moment: who configures the network takes
//! everything away before he puts it back, and a VIP that moved for that would move for nothing.

use std::time::Duration;

use kedge_core::Instant;
use kedge_net::{PROTOCOL, monitor};

use super::{Shell, place::Unplaced};
use crate::{Chosen, VipSpec, WhyNot};

impl Shell {
    /// Where a router is to be, given where it could be: where it was, for a moment, while its link
    /// stands and only the address is missing for which that was chosen.
    pub(super) fn bridge(
        &mut self,
        now: Instant,
        index: usize,
        place: Result<Chosen, Unplaced>,
    ) -> Result<Chosen, Unplaced> {
        let Some(instance) = self.instances.get_mut(index) else {
            return place;
        };
        let before = match (&place, &instance.place) {
            (
                Err(Unplaced::Why(WhyNot::NoOnLinkPrefix { .. } | WhyNot::CannotCarry { .. })),
                Ok(before),
            ) => Some(before),
            _ => None,
        };
        let stands = before.and_then(|before| {
            let link = self.monitor.link(before.ifindex)?;
            (before.running && link.is_running()).then_some((before, link))
        });
        let Some((before, link)) = stands else {
            instance.bare_since = None;
            return place;
        };
        let since = *instance.bare_since.get_or_insert(now);
        let until = since + patience(link, &instance.spec);
        if now >= until {
            instance.bare_since = None;
            return place;
        }
        self.retry_at = Some(self.retry_at.map_or(until, |at| at.min(until)));
        Ok(before.clone())
    }
}

fn patience(link: &monitor::Link, spec: &VipSpec) -> Duration {
    let comes_back = link.addresses.iter().any(|address| {
        let covers = spec.on_link().is_some_and(|vip| address.net.contains(&vip));
        address.tentative && address.protocol != PROTOCOL && covers
    });
    if comes_back { TENTATIVE } else { BARE }
}

/// How long an address is missed before the VIP is let go. systemd-networkd takes 25 ms to put back a
/// static one. Without it nobody beyond the link is answered, so that is all.
const BARE: Duration = Duration::from_millis(250);
/// The same for one that stands already, and that the kernel does not let be used before it knows that
/// nobody else has it: a second, after a delay of a second at most (RFC 4862 section 5.4).
const TENTATIVE: Duration = Duration::from_secs(3);
