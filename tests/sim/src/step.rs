//! One step of one host: what arrives, what its router does, what leaves.

use std::net::IpAddr;

use kedge_core::vip::RouterState;
use kedge_vip_proto::{
    vrrp::{AddressRefused, Because, Event, Evidence, Input, Notice, Output, Ticket},
    wire::{Mac, Neighbor, arp, nd, vrrp::Received},
};

use crate::{
    check::Violation,
    frame::{self, Frame, vip},
    host::Inbound,
    setup::mac,
    subject::{Cause, Subject},
    world::{Happening, World},
};

impl<S: Subject> World<S> {
    /// A frame reaches a station: its kernel first, then its process.
    pub(crate) fn arrive(&mut self, to: usize, bytes: Frame) -> Result<(), Violation> {
        if to == self.hosts.len() {
            self.client.hear(self.now, &bytes);
            return Ok(());
        }
        let host = &self.hosts[to];
        if !host.link {
            return Ok(());
        }
        if host.kernel.holds
            && let Some(answer) = self.answer(to, &bytes)
        {
            self.meet("asked, and answered by a kernel");
            self.broadcast(to, &answer);
        }
        self.give(to, Inbound::Frame(bytes))
    }

    /// What the kernel of a host that holds the address answers a frame that asks for it.
    fn answer(&self, host: usize, bytes: &[u8]) -> Option<Frame> {
        let (_, from, _, _) = frame::split(bytes)?;
        match frame::read_neighbor(bytes)? {
            Neighbor::Arp(packet) => {
                let asks = packet.operation == arp::Operation::Request && !packet.is_announcement();
                let IpAddr::V4(vip) = vip(self.setup.ipv6) else {
                    return None;
                };
                let answer = arp::Packet {
                    operation: arp::Operation::Reply,
                    sender_mac: mac(host),
                    sender: vip,
                    target_mac: from,
                    target: packet.sender,
                };
                let frame = frame::neighbor(from, mac(host), &Neighbor::Arp(answer));
                (asks && packet.target == vip).then_some(frame)
            }
            Neighbor::Nd(packet) => {
                let asks = packet.kind == nd::Kind::Solicitation;
                let own = IpAddr::V6(packet.target) == vip(self.setup.ipv6);
                // A probe is answered to every node (RFC 4861 section 7.2.4).
                let answer = nd::Packet::announcement(packet.target, mac(host));
                let frame = frame::neighbor(from, mac(host), &Neighbor::Nd(answer));
                (asks && own).then_some(frame)
            }
        }
    }

    /// Something arrives for a process: now, or when it is scheduled again.
    pub(crate) fn give(&mut self, to: usize, inbound: Inbound) -> Result<(), Violation> {
        let host = &mut self.hosts[to];
        if host.router.is_none() {
            return Ok(());
        }
        if host.stalled {
            if host.backlog.len() < BACKLOG {
                host.backlog.push_back(inbound);
            }
            return Ok(());
        }
        let input = match inbound {
            Inbound::Input(input) => input,
            Inbound::Frame(bytes) => {
                if !host.heard {
                    host.heard = true;
                    self.act(to, &Cause::Input(Input::Heard))?;
                }
                match read(&bytes) {
                    Some(input) => input,
                    None => {
                        self.meet("damaged or foreign frame");
                        return Ok(());
                    }
                }
            }
        };
        self.act(to, &Cause::Input(input))
    }

    /// Lets a router act and does what it says.
    pub(crate) fn act(&mut self, index: usize, cause: &Cause) -> Result<(), Violation> {
        let Some(router) = &mut self.hosts[index].router else {
            return Ok(());
        };
        let before = router.view();
        let result = cause.apply(router, self.now);
        let mut outputs = Vec::new();
        while let Some(output) = router.poll_output() {
            outputs.push(output);
        }
        let announcing = router.announcing();
        let next = router.poll_timeout();
        let after = router.view();
        if let Err(reject) = result {
            self.meet(reject.label());
        }
        self.checker.acted(
            self.now, index, cause, result, &before, &after, &outputs, next,
        )?;
        for output in outputs {
            self.execute(index, output, announcing)?;
        }
        Ok(())
    }

    fn execute(&mut self, index: usize, output: Output, announcing: bool) -> Result<(), Violation> {
        let epoch = self.hosts[index].epoch;
        match output {
            Output::Send(transmit) => {
                let frame = frame::advert(mac(index), &transmit);
                self.digest.add(self.now, index, 1, &frame);
                self.broadcast(index, &frame);
            }
            Output::Announce(packet) | Output::ProbeAddress(packet) => {
                let probe = packet.is_probe();
                self.meet(if probe { "address probed" } else { "announced" });
                let frame = frame::neighbor(Mac::BROADCAST, mac(index), &packet);
                self.digest.add(self.now, index, 2, &frame);
                if probe || announcing {
                    self.broadcast(index, &frame);
                }
            }
            Output::Own { hold: true, ticket } => {
                self.digest.add(self.now, index, 3, &ticket.0.to_be_bytes());
                self.hosts[index].kernel.wanted = Some(ticket);
                self.after(
                    50,
                    2_000,
                    Happening::Kernel {
                        host: index,
                        epoch,
                        ticket,
                    },
                );
            }
            Output::Own { hold: false, .. } => {
                self.digest.add(self.now, index, 4, &[]);
                self.hosts[index].kernel.wanted = None;
                self.hosts[index].kernel.holds = false;
            }
            Output::ProbeHealth => {
                self.meet("fresh probe");
                let healthy = self.hosts[index].healthy;
                let input = Input::Probed { healthy };
                self.after(
                    500,
                    10_000,
                    Happening::Input {
                        host: index,
                        epoch,
                        input,
                    },
                );
            }
            Output::Prove { look: true } => {
                self.meet("proof asked for");
                let evidence = match self.random.below(4) {
                    0 | 1 => return Ok(()),
                    2 => Evidence::NobodyToAsk,
                    _ => Evidence::Arrived,
                };
                let input = Input::Evidence(evidence);
                self.after(
                    200,
                    50_000,
                    Happening::Input {
                        host: index,
                        epoch,
                        input,
                    },
                );
            }
            Output::Prove { look: false } => {}
            Output::Event(event) => {
                self.meet(label(&event));
                if let Event::State { from, to, .. } = event {
                    self.digest.add(self.now, index, 5, &[rank(from), rank(to)]);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn kernel_done(
        &mut self,
        index: usize,
        epoch: u32,
        ticket: Ticket,
    ) -> Result<(), Violation> {
        if self.hosts[index].epoch != epoch {
            return Ok(());
        }
        let result = if self.random.chance(self.setup.refusals) {
            self.meet("refused by a kernel");
            Err(AddressRefused {
                address: vip(self.setup.ipv6),
                errno: 99,
            })
        } else {
            Ok(())
        };
        // A request that was superseded meanwhile is answered all the same.
        if self.hosts[index].kernel.wanted == Some(ticket) {
            self.hosts[index].kernel.holds = result.is_ok();
        }
        self.give(index, Inbound::Input(Input::Owned { ticket, result }))
    }
}

/// What a process reads from its packet sockets.
fn read(bytes: &[u8]) -> Option<Input> {
    let (_, from, ethertype, payload) = frame::split(bytes)?;
    match ethertype {
        frame::IPV4 | nd::ETHERTYPE => Received::parse(from, payload).ok().map(Input::Advert),
        _ => None,
    }
    .or_else(|| frame::read_neighbor(bytes).map(Input::Neighbor))
}

fn label(event: &Event) -> &'static str {
    match event {
        Event::State { because, .. } => match because {
            Because::Silence { .. } => "take-over after silence",
            Because::NobodyHeard { .. } => "take-over, nobody heard",
            Because::Goodbye { .. } => "take-over after a goodbye",
            Because::HandedOver { .. } => "take-over by agreement",
            Because::ProcessEnded { .. } => "take-over, its process ended",
            Because::Preempted { .. } => "take-over by priority",
            Because::Unhealthy { .. } => "take-over by health",
            Because::Better { .. } => "stepped down",
            Because::Stalled { .. } => "let go after a stall",
            Because::Overslept { .. } => "hears first after a stall",
            Because::AddressInUse { .. } => "address in use",
            Because::Succeeded { .. } => "succeeded",
            Because::NoSuccessor => "no successor",
            Because::TrackLost => "critical track lost",
            Because::TracksBack => "critical track back",
            _ => "other transition",
        },
        Event::Priority { .. } => "priority changed",
        Event::Notice(Notice::ForeignClaim { .. }) => "foreign claim",
        Event::Notice(Notice::BothChecksums { .. }) => "both checksums",
        Event::Notice(Notice::Unproven { .. }) => "proof missing",
        Event::Notice(_) => "other notice",
    }
}

fn rank(state: RouterState) -> u8 {
    match state {
        RouterState::Initialize => 0,
        RouterState::Backup => 1,
        RouterState::Active => 2,
        RouterState::Releasing => 3,
        RouterState::Fault => 4,
    }
}

/// What a socket holds for a process that is not scheduled.
const BACKLOG: usize = 256;
