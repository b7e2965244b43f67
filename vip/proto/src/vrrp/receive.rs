//! What comes in: which inputs make sense, and what every packet tells whatever the state.

use std::{net::IpAddr, time::Duration};

use kedge_core::Instant;

use super::{
    Command, Input, Link, Notice, Peer, Reject,
    router::Router,
    state::{Backup, State},
};
use crate::wire::{
    Mac, Neighbor,
    vrrp::{Received, Version},
};

impl Router {
    /// Refuses inputs that make no sense, before anything changes.
    pub(super) fn accept(&self, input: &Input) -> Result<(), Reject> {
        match input {
            Input::Advert(received) => {
                let own = self.listening()?;
                if received.advert.vrid != self.config.vrid {
                    return Err(Reject::OtherVrid);
                }
                if self.is_own(own, received.mac, received.src) {
                    Err(Reject::OwnPacket)
                } else {
                    Ok(())
                }
            }
            Input::Unverified { src, mac, .. } => {
                if self.is_own(self.listening()?, *mac, *src) {
                    Err(Reject::OwnPacket)
                } else {
                    Ok(())
                }
            }
            Input::Neighbor(packet) => {
                let own = self.listening()?;
                match packet.claim() {
                    Some(claim) if claim.mac == own => Err(Reject::OwnPacket),
                    Some(claim) if self.config.holds(claim.address) => Ok(()),
                    Some(_) | None => Err(Reject::OtherAddress),
                }
            }
            Input::Owned { ticket, .. } => {
                let waiting = match &self.state {
                    State::Active(active) => !active.held,
                    State::Releasing(releasing) => !releasing.held,
                    State::Initialize | State::Backup(_) | State::Fault(_) => false,
                };
                let current = waiting && *ticket == self.ticket;
                if current {
                    Ok(())
                } else {
                    Err(Reject::OldTicket)
                }
            }
            Input::Probed { .. } if !self.fresh.is_asked() => Err(Reject::NotAsked),
            Input::Evidence(_) if !self.proving.is_looking() => Err(Reject::NotAsked),
            Input::Lead(_) if !self.config.follows => Err(Reject::NotFollowing),
            Input::Heard if matches!(self.link, Link::Down(_)) => Err(Reject::NotListening),
            Input::Command(command) => {
                let sensible = match command {
                    Command::Start | Command::Resume => self.state == State::Initialize,
                    Command::Stop => self.state != State::Initialize,
                    Command::HandOver | Command::Take | Command::Succeed => {
                        return self.accept_order(*command);
                    }
                };
                if sensible {
                    Ok(())
                } else {
                    Err(Reject::WrongState)
                }
            }
            Input::Config(config) => self.accept_config(config).map_err(Reject::Config),
            Input::Link(_)
            | Input::Heard
            | Input::Health(_)
            | Input::Tracked(_)
            | Input::Lead(_)
            | Input::Evidence(_)
            | Input::PeerGone { .. }
            | Input::Probed { .. } => Ok(()),
        }
    }

    /// Our hardware address, if we take packets at all.
    fn listening(&self) -> Result<Mac, Reject> {
        match self.link {
            Link::Up { mac, .. } if self.state != State::Initialize => Ok(mac),
            Link::Up { .. } | Link::Down(_) => Err(Reject::NotListening),
        }
    }

    /// Whether an advert is ours that came back. The virtual hardware address is every member's.
    fn is_own(&self, own: Mac, mac: Mac, src: IpAddr) -> bool {
        let shared = Mac::virtual_router(self.config.vrid, src.is_ipv6());
        let is_source = matches!(self.link, Link::Up { source, .. } if source == src);
        mac == own || self.config.virtual_mac && mac == shared && is_source
    }

    pub(super) fn on_advert(&mut self, now: Instant, received: &Received) {
        self.on_frame(now);
        if self.contradicts(now, received) {
            return;
        }
        self.stats.adverts_received += 1;
        self.checksums.heard(received.src, received.forms);
        self.compare(now, received);
        let Some(priority) = received.advert.priority else {
            self.stats.goodbyes_received += 1;
            return self.on_goodbye(now, received.src);
        };
        let peer = Peer {
            address: received.src,
            mac: received.mac,
            priority,
            interval: received.advert.interval,
            heard_at: now,
        };
        let ours = !received
            .advert
            .addresses
            .is_disjoint(&self.config.addresses);

        match &self.state {
            State::Initialize => {}
            State::Backup(_) => self.backup_advert(now, peer, ours),
            State::Active(_) => self.active_advert(now, peer),
            State::Releasing(_) => self.releasing_advert(now, peer),
            State::Fault(_) => self.fault_advert(now, peer, ours),
        }
    }

    fn on_goodbye(&mut self, now: Instant, src: IpAddr) {
        match &self.state {
            State::Backup(_) => self.backup_goodbye(now, src),
            State::Active(_) => self.active_goodbye(now),
            State::Initialize | State::Releasing(_) | State::Fault(_) => {}
        }
    }

    /// Whether an advert is of our virtual router and must be discarded all the same: from nobody
    /// we take adverts from, of another version, with another password, or in version 2 of another
    /// interval. It is told, because two that discard each other's are two Actives.
    fn contradicts(&mut self, now: Instant, received: &Received) -> bool {
        if let Some(notice) = self.config.peers.objection(received) {
            self.stats.delivery_errors += 1;
            self.notice(now, notice);
            return true;
        }
        let src = received.src;
        let (theirs, ours) = (received.advert.interval, self.config.interval);
        let notice = match (received.advert.version, self.config.version) {
            (Version::Three, Version::Three) => return false,
            (Version::Two { .. }, Version::Three) | (Version::Three, Version::Two { .. }) => {
                self.stats.version_errors += 1;
                let theirs = received.advert.version.number();
                Notice::VersionDiffers { src, theirs }
            }
            (Version::Two { password: theirs }, Version::Two { password })
                if theirs != password =>
            {
                self.stats.auth_errors += 1;
                Notice::PasswordDiffers {
                    src,
                    has_one: theirs.is_some(),
                }
            }
            (Version::Two { .. }, Version::Two { .. }) if theirs != ours => {
                self.stats.interval_errors += 1;
                Notice::IntervalRefused { src, theirs, ours }
            }
            (Version::Two { .. }, Version::Two { .. }) => return false,
        };
        self.notice(now, notice);
        true
    }

    /// Reports how an advert differs from our configuration. These differences never drop it:
    /// hosts that ignore each other are two Actives.
    fn compare(&mut self, now: Instant, received: &Received) {
        let (theirs, ours) = (&received.advert.addresses, &self.config.addresses);
        let src = received.src;
        if !theirs.same_set(ours) {
            self.stats.address_list_errors += 1;
            let notice = if theirs.is_disjoint(ours) {
                Notice::VridInUse {
                    vrid: self.config.vrid,
                    src,
                    mac: received.mac,
                    addresses: theirs.clone(),
                }
            } else {
                Notice::AddressesDiffer {
                    src,
                    theirs: theirs.clone(),
                    ours: ours.clone(),
                }
            };
            self.notice(now, notice);
        }
        let (theirs, ours) = (received.advert.interval, self.config.interval);
        if theirs != ours {
            self.stats.interval_errors += 1;
            self.notice(now, Notice::IntervalDiffers { src, theirs, ours });
        }
    }

    /// Another station says that an address of ours is there. Probes say nothing: every member of
    /// a virtual router probes at its first start (RFC 5227 would see a conflict there).
    pub(super) fn on_neighbor(&mut self, now: Instant, packet: &Neighbor) {
        let Some(claim) = packet.claim() else {
            return;
        };
        self.on_frame(now);
        match &self.state {
            State::Initialize => {}
            State::Backup(_) => self.backup_claim(now, claim),
            State::Active(_) => self.active_claim(now, claim),
            State::Releasing(_) => self.releasing_claim(now, claim),
            State::Fault(_) => self.fault_claim(claim),
        }
    }

    /// Nothing proves that the link carries frames: nothing is claimed before one arrived, for
    /// `wait` at most.
    pub(super) fn deafen(&mut self, now: Instant, wait: Duration) {
        self.deaf = true;
        self.not_before = now + wait + self.skew();
    }

    /// A frame from another station arrived.
    pub(super) fn on_frame(&mut self, now: Instant) {
        if self.deaf {
            self.deaf = false;
            let probed = match &self.state {
                State::Backup(backup) => backup.probe.as_ref().map(|probe| probe.ends_at()),
                State::Initialize | State::Active(_) | State::Releasing(_) | State::Fault(_) => {
                    None
                }
            };
            let from = probed.map_or(now, |end| end.max(now));
            let skew = self.skew();
            self.not_before = self.not_before.min(from + skew);
        }
    }

    /// No take-over before the first-claim probes ended.
    pub(super) fn wait_for_probes(&mut self) {
        if let State::Backup(Backup {
            probe: Some(probe), ..
        }) = &self.state
        {
            let skew = self.skew();
            self.not_before = self.not_before.max(probe.ends_at() + skew);
        }
    }
}
