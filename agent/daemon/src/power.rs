//! A host that is about to go down or to sleep: its VIPs are given away first, while logind waits.
//!
//! | logind says | the VIPs |
//! |---|---|
//! | the host goes down | as if drained: given away without a gap, and held only while nobody else does |
//! | it does not after all | take part again |
//! | the host will sleep | leave: nothing of them is left that could wake up late and speak |
//! | it woke up, or does not sleep | start as if the agent had started |

use std::{collections::BTreeSet, time::Duration};

use kedge_control::local::{self, Inhibitor};
use kedge_core::{
    Name,
    vip::{Priority, RouterState},
};
use kedge_host::{
    bus::{Bus, Unanswered},
    login::{Ending, Login, News, Standing},
};
use kedge_vip_speaker::VipSnapshot;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use crate::{agent::Agent, desired::Desired, status::holds};

/// What logind says, and how far the VIPs have left.
#[derive(Debug)]
pub(crate) struct Power {
    bus: Bus,
    login: Option<Login>,
    /// Whether there is something to hand over.
    wanted: bool,
    ending: Option<Ending>,
    leaving: Leaving,
}

/// VIPs that logind is kept waiting for.
#[derive(Debug, Default)]
struct Leaving {
    waited_for: BTreeSet<Name>,
    until: Option<Instant>,
}

/// Something that concerns the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// logind said something.
    Told(News),
    /// logind will not wait any longer.
    Expired,
}

impl Power {
    pub(crate) fn new(bus: Bus) -> Self {
        Self {
            bus,
            login: None,
            wanted: false,
            ending: None,
            leaving: Leaving::default(),
        }
    }

    /// Listens to logind from the first VIP on: without one there is nothing to hand over.
    pub(crate) fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
        if !wanted {
            *self = Self::new(self.bus.clone());
        } else if self.login.is_none() && self.bus.is_there() {
            self.login = Some(Login::listen(self.bus.clone()));
        }
    }

    /// Asks anew at the next occasion where there was no logind: an administrator may have changed that.
    pub(crate) fn retry(&mut self) {
        self.login.take_if(|login| login.is_over());
    }

    /// What comes next.
    pub(crate) async fn next(&mut self) -> Event {
        let until = self.leaving.until;
        let expired = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let told = async {
            match &mut self.login {
                Some(login) => login.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            news = told => Event::Told(news),
            () = expired => Event::Expired,
        }
    }

    /// Puts what is about to happen into what the speaker is told.
    pub(crate) fn mark(&self, desired: &mut Desired) {
        match self.ending {
            None => {}
            Some(Ending::Shutdown) => {
                for vip in &mut desired.vips {
                    vip.spec.drained = true;
                    // It ends here either way.
                    vip.spec.frozen = false;
                }
                for vip in &mut desired.anycast {
                    vip.leaves = true;
                }
            }
            Some(Ending::Sleep) => {
                desired.vips.clear();
                desired.anycast.clear();
            }
        }
    }

    /// A VIP changed its state here.
    pub(crate) fn moved(&mut self, name: &Name, to: RouterState) {
        if self.leaving.moved(name, to) {
            self.let_go("the VIPs have left");
        }
    }

    fn let_go(&mut self, because: &str) {
        self.leaving = Leaving::default();
        if let Some(login) = &self.login {
            info!(because, "logind need not wait any longer");
            login.let_go();
        }
    }

    /// What people are told.
    pub(crate) fn status(&self) -> Option<Inhibitor> {
        let standing = match &self.login {
            Some(login) => login.standing(),
            None if self.wanted && self.bus.is_expected() => Standing::None(Unanswered::NoBus),
            None => return None,
        };
        Some(Inhibitor {
            held: standing.patience().is_some(),
            because: standing.to_string(),
            ending: self.ending.map(|ending| match ending {
                Ending::Shutdown => local::Ending::Shutdown,
                Ending::Sleep => local::Ending::Sleep,
            }),
        })
    }
}

impl Leaving {
    fn of(ending: Ending, vips: &[VipSnapshot], patience: Option<Duration>) -> Self {
        let leaves = |vip: &&VipSnapshot| match ending {
            // An address of the host's own is its own until the end.
            Ending::Shutdown => holds(vip.state) && vip.base_priority != Priority::OWNER,
            Ending::Sleep => vip.state != RouterState::Initialize,
        };
        let waited_for = vips.iter().filter(leaves).map(|vip| vip.name.clone());
        Self {
            waited_for: waited_for.collect(),
            // A little less than logind waits.
            until: patience.map(|patience| Instant::now() + patience * 9 / 10),
        }
    }

    /// Whether it was the last one.
    fn moved(&mut self, name: &Name, to: RouterState) -> bool {
        to != RouterState::Releasing && self.waited_for.remove(name) && self.waited_for.is_empty()
    }
}

impl Agent {
    /// Does what logind's word means for the VIPs.
    pub(crate) fn heed_power(&mut self, event: Event) {
        match event {
            Event::Expired => {
                let vips = &self.power.leaving.waited_for;
                warn!(?vips, "VIPs have not left before the host goes on");
                self.power.let_go("logind waits no longer");
            }
            Event::Told(News::Begins(ending)) => {
                let standing = self.power.login.as_ref().map(Login::standing);
                let patience = standing.and_then(Standing::patience);
                let vips = self.speaker.snapshot();
                self.power.ending = Some(ending);
                self.power.leaving = Leaving::of(ending, &vips, patience);
                self.note(
                    "",
                    match ending {
                        Ending::Shutdown => "the host is about to go down",
                        Ending::Sleep => "the host is about to sleep",
                    },
                );
                self.replan("logind");
                if self.power.leaving.waited_for.is_empty() {
                    self.power.let_go("there is no VIP to hand over");
                }
            }
            Event::Told(News::Over(ending)) => {
                self.power.ending = None;
                self.power.leaving = Leaving::default();
                self.note(
                    "",
                    match ending {
                        Ending::Shutdown => "the host does not go down",
                        Ending::Sleep => "the host is awake",
                    },
                );
                self.replan("logind");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_vip_whose_hand_over_has_ended_lets_logind_go_on() {
        let mut leaving = Leaving {
            waited_for: [name("api"), name("web")].into(),
            until: None,
        };
        assert!(!leaving.moved(&name("api"), RouterState::Releasing));
        assert!(!leaving.moved(&name("api"), RouterState::Backup));
        assert!(!leaving.moved(&name("api"), RouterState::Active));
        assert!(!leaving.moved(&name("other"), RouterState::Backup));
        // Nobody took it: it is held here again, and is nothing to wait for.
        assert!(leaving.moved(&name("web"), RouterState::Active));
        assert!(!leaving.moved(&name("web"), RouterState::Backup));
    }

    #[test]
    fn a_root_that_is_not_the_systems_own_has_nothing_to_tell() {
        let dir = tempfile::tempdir().unwrap();
        let mut power = Power::new(Bus::of(&kedge_host::Root::new(dir.path())));
        power.want(true);
        assert_eq!(power.status(), None);
    }
}
