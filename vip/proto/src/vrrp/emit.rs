//! What goes out, in the order in which it must be done.

use kedge_core::{Instant, vip::Priority};

use super::{Because, Event, Link, Notice, Output, Ticket, Transmit, router::Router, state::State};
use crate::wire::{
    checksum::Form,
    vrrp::{Advert, Version},
};

impl Router {
    /// Changes the state and says so.
    pub(super) fn enter(&mut self, now: Instant, state: State, because: Because) {
        let from = self.state.name();
        self.state = state;
        self.since = now;
        self.because = because.clone();
        let to = self.state.name();
        self.event(Event::State { from, to, because });
    }

    /// Sends an advert, or a goodbye without `priority`, in every form that is needed.
    pub(super) fn send(&mut self, priority: Option<Priority>) {
        let Link::Up { source: src, .. } = self.link else {
            return;
        };
        let advert = Advert {
            version: self.config.version,
            vrid: self.config.vrid,
            priority,
            interval: self.config.interval,
            addresses: self.config.addresses.clone(),
        };
        let ipv6 = self.config.addresses.is_ipv6();
        let (first, second) = match self.config.version {
            Version::Two { .. } => (Form::Message, None),
            Version::Three if ipv6 => (Form::PseudoHeader, None),
            Version::Three => self.checksums.forms(self.config.checksum),
        };
        for form in [Some(first), second].into_iter().flatten() {
            for dst in self.config.peers.destinations(ipv6) {
                self.stats.adverts_sent += 1;
                if priority.is_none() {
                    self.stats.goodbyes_sent += 1;
                }
                self.outputs.push_back(Output::Send(Transmit {
                    src,
                    dst,
                    form,
                    advert: advert.clone(),
                }));
            }
        }
    }

    /// Asks the kernel to hold the addresses.
    pub(super) fn own(&mut self) {
        self.ticket = Ticket(self.ticket.0.wrapping_add(1));
        self.outputs.push_back(Output::Own {
            hold: true,
            ticket: self.ticket,
        });
    }

    /// Takes back every announcement, then the addresses: in this order, so that none follows.
    pub(super) fn disown(&mut self) {
        self.silence();
        self.outputs.push_back(Output::Own {
            hold: false,
            ticket: self.ticket,
        });
        self.stop_proving();
    }

    /// Takes back every announcement that has not left.
    pub(super) fn silence(&mut self) {
        self.owes_announcement = false;
        self.announcer.cancel();
        self.outputs
            .retain(|output| !matches!(output, Output::Announce(_)));
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(super) fn notice(&mut self, now: Instant, notice: Notice) {
        if self.notices.is_news(now, &notice) {
            self.event(Event::Notice(notice));
        }
    }

    pub(super) fn drain_children(&mut self) {
        while let Some(packet) = self.announcer.poll_output() {
            self.outputs.push_back(Output::Announce(packet));
        }
        if let State::Backup(backup) = &mut self.state
            && let Some(probe) = &mut backup.probe
        {
            while let Some(packet) = probe.poll_output() {
                self.outputs.push_back(Output::ProbeAddress(packet));
            }
        }
    }
}
