//! Routers that are broken on purpose: each breaks one invariant, so that a checker that stays
//! silent about it is broken itself.

use std::time::Duration;

use kedge_core::{Instant, Machine, vip::RouterState};
use kedge_vip_proto::vrrp::{Config, Input, Output, Reject, Router, View};

use crate::subject::Subject;

/// How a router is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flaw {
    /// An Active ignores better adverts.
    Stubborn,
    /// Announces together with the take-over, before the kernel holds the address.
    Hasty,
    /// Every ARP packet puts the take-over off.
    Dawdling,
    /// A Backup never takes over.
    Sleepy,
    /// An Active forgets to advertise.
    Mute,
    /// After a stall it catches up instead of letting go.
    Overzealous,
    /// A refused input is acted on.
    Sloppy,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Stubborn,
        Self::Hasty,
        Self::Dawdling,
        Self::Sleepy,
        Self::Mute,
        Self::Overzealous,
        Self::Sloppy,
    ];
}

/// A router with the flaw number `FLAW` of [`Flaw::ALL`].
#[derive(Clone, Debug)]
pub struct Mutant<const FLAW: usize> {
    router: Router,
    late: Duration,
    hasty: bool,
}

impl<const FLAW: usize> Mutant<FLAW> {
    const FLAW: Flaw = Flaw::ALL[FLAW];

    fn is(&self, flaw: Flaw, state: RouterState) -> bool {
        Self::FLAW == flaw && self.router.state() == state
    }
}

impl<const FLAW: usize> Subject for Mutant<FLAW> {
    fn with(config: Config) -> Self {
        Self {
            router: Router::with(config),
            late: Duration::ZERO,
            hasty: false,
        }
    }

    fn view(&self) -> View {
        let view = self.router.view();
        View {
            takes_over_at: view.takes_over_at.map(|at| at + self.late),
            ..view
        }
    }

    fn state(&self) -> RouterState {
        self.router.state()
    }

    fn announcing(&self) -> bool {
        self.router.announcing() || Self::FLAW == Flaw::Hasty
    }
}

impl<const FLAW: usize> Machine for Mutant<FLAW> {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        let arp =
            matches!(input, Input::Neighbor(_)) && self.is(Flaw::Dawdling, RouterState::Backup);
        let advert = matches!(input, Input::Advert(_));
        if advert && self.is(Flaw::Stubborn, RouterState::Active) {
            return Ok(());
        }
        let sloppy = Self::FLAW == Flaw::Sloppy && matches!(input, Input::Owned { .. });
        match self.router.handle_input(now, input) {
            Err(reject) if sloppy => {
                self.hasty = true;
                Err(reject)
            }
            Ok(()) if arp => {
                self.late += Duration::from_micros(10);
                Ok(())
            }
            result => result,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.is(Flaw::Sleepy, RouterState::Backup) {
            return;
        }
        if Self::FLAW == Flaw::Overzealous {
            self.catch_up(now);
        }
        self.router.handle_timeout(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        use kedge_vip_proto::wire::{Mac, Neighbor, arp};
        let announcement = || {
            let address = std::net::Ipv4Addr::new(10, 20, 14, 10);
            Output::Announce(Neighbor::Arp(arp::Packet::announcement(
                arp::Operation::Reply,
                address,
                Mac::ZERO,
            )))
        };
        if std::mem::take(&mut self.hasty) {
            return Some(announcement());
        }
        let output = self.router.poll_output()?;
        match &output {
            Output::Own { hold: true, .. } if Self::FLAW == Flaw::Hasty => self.hasty = true,
            Output::Send(_) if self.is(Flaw::Mute, RouterState::Active) => {
                return self.router.poll_output();
            }
            _ => {}
        }
        Some(output)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sleeps = self.is(Flaw::Sleepy, RouterState::Backup);
        self.router
            .poll_timeout()
            .filter(|_| !sleeps)
            .map(|due| due + self.late)
    }
}

impl<const FLAW: usize> Mutant<FLAW> {
    /// Lives through every missed deadline, as if each had been served in time.
    fn catch_up(&mut self, now: Instant) {
        while let Some(due) = self.router.poll_timeout().filter(|due| *due < now) {
            self.router.handle_timeout(due);
        }
    }
}
