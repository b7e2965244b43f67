//! The sockets of one interface, shared by every VIP on it.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use kedge_core::{Coded, Instant, Problem};
use kedge_net::{
    arp::ArpSocket, monitor::Monitor, nd::NdSocket, station::StationListener, udp::Family,
    vrrp::VrrpSocket, wait::Waiter,
};
use kedge_vip_proto::{
    vrrp::{Config, Transmit},
    wire::{
        Mac, Neighbor, ParseError, arp,
        nd::{self, Kind},
        vrrp::{Heard, MAX_LEN, Received},
    },
};

use super::{SOCKETS, seal::Seal};
use crate::{
    Chosen,
    guardian::{Opened, Shared},
};

/// VRRP, ARP and Neighbor Discovery on one interface, as far as a VIP there needs them.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(super) name: String,
    pub(super) ifindex: u32,
    pub(super) vrrp_v4: Option<VrrpSocket>,
    pub(super) vrrp_v6: Option<VrrpSocket>,
    pub(super) arp: Option<ArpSocket>,
    pub(super) nd: Option<NdSocket>,
    pub(super) counters: Counters,
    pub(super) malformed: Option<Malformed>,
    /// From when on a dropped packet is worth a line in the log again.
    log_from: Instant,
    listening: Option<Listening>,
}

/// Waiting for the first frame of another station.
#[derive(Debug)]
struct Listening {
    station: StationListener,
    /// Who should answer, asked from where.
    question: Option<Neighbor>,
    ask_at: Instant,
}

/// Counts by reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(pub(super) BTreeMap<&'static str, u64>);

/// What a packet says, or who sent one that says nothing, and why.
pub(super) type Parsed<T> = Result<T, (kedge_net::Mac, ParseError)>;

/// A packet that was dropped before it reached a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) reason: &'static str,
    pub(crate) mac: kedge_net::Mac,
    pub(crate) at: Instant,
}

impl Interface {
    pub(super) fn new(chosen: &Chosen) -> Self {
        Self::empty(chosen.name.clone(), chosen.ifindex)
    }

    fn empty(name: String, ifindex: u32) -> Self {
        Self {
            name,
            ifindex,
            vrrp_v4: None,
            vrrp_v6: None,
            arp: None,
            nd: None,
            counters: Counters::default(),
            malformed: None,
            log_from: Instant::ZERO,
            listening: None,
        }
    }

    /// Opens the sockets that a router with `config` needs and that are not open yet.
    pub(super) fn open(&mut self, config: &Config, waiter: &Waiter) -> Result<(), Problem> {
        let (name, ifindex) = (&self.name, self.ifindex);
        let (vrrp, family) = if config.addresses.is_ipv6() {
            (&mut self.vrrp_v6, Family::V6)
        } else {
            (&mut self.vrrp_v4, Family::V4)
        };
        ensure(vrrp, waiter, || VrrpSocket::open(name, ifindex, family))?;
        if config.held().any(|address| address.is_ipv4()) {
            ensure(&mut self.arp, waiter, || ArpSocket::open(ifindex))?;
        }
        if config.held().any(|address| address.is_ipv6()) {
            ensure(&mut self.nd, waiter, || NdSocket::open(name, ifindex))?;
        }
        Ok(())
    }

    /// Goes on with the sockets of another process, whose descriptors are `beside`.
    pub(crate) fn adopt(
        name: String,
        ifindex: u32,
        sockets: &[Opened],
        beside: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let mut interface = Self::empty(name, ifindex);
        let mut beside = beside.into_iter();
        let mut next = || beside.next().ok_or(io::ErrorKind::InvalidData);
        for socket in sockets {
            match socket {
                Opened::VrrpV4 => {
                    let all = [next()?, next()?, next()?, next()?];
                    interface.vrrp_v4 = Some(VrrpSocket::adopt(all, ifindex, Family::V4)?);
                }
                Opened::VrrpV6 => {
                    let all = [next()?, next()?, next()?, next()?];
                    interface.vrrp_v6 = Some(VrrpSocket::adopt(all, ifindex, Family::V6)?);
                }
                Opened::Arp => interface.arp = Some(ArpSocket::adopt(next()?, ifindex)?),
                Opened::Nd => {
                    let socket = NdSocket::adopt(next()?, &interface.name, ifindex)?;
                    interface.nd = Some(socket);
                }
            }
        }
        Ok(interface)
    }

    /// What another process needs for [`adopt`](Self::adopt).
    pub(crate) fn shared(&self) -> Shared<'_> {
        let v4 = self.vrrp_v4.iter();
        let v6 = self.vrrp_v6.iter();
        let vrrp = v4
            .map(|socket| (Opened::VrrpV4, socket.descriptors().to_vec()))
            .chain(v6.map(|socket| (Opened::VrrpV6, socket.descriptors().to_vec())));
        let arp = self.arp.iter();
        let nd = self.nd.iter();
        let neighbors = arp
            .map(|socket| (Opened::Arp, vec![socket.as_fd()]))
            .chain(nd.map(|socket| (Opened::Nd, vec![socket.as_fd()])));
        Shared {
            ifindex: self.ifindex,
            name: &self.name,
            sockets: vrrp.chain(neighbors).collect(),
        }
    }

    /// The sockets that are waited for.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let v4 = self.vrrp_v4.iter().map(AsFd::as_fd);
        let v6 = self.vrrp_v6.iter().map(AsFd::as_fd);
        let arp = self.arp.iter().map(AsFd::as_fd);
        v4.chain(v6)
            .chain(arp)
            .chain(self.nd.iter().map(AsFd::as_fd))
    }

    /// Receives from now on what others claim about `addresses`.
    pub(super) fn watch(&self, addresses: &[IpAddr]) -> Result<(), Problem> {
        let (mut v4, mut v6): (Vec<Ipv4Addr>, Vec<Ipv6Addr>) = Default::default();
        for address in addresses {
            match address {
                IpAddr::V4(address) => v4.push(*address),
                IpAddr::V6(address) => v6.push(*address),
            }
        }
        if let Some(arp) = &self.arp {
            arp.watch(&v4).map_err(|error| error.problem())?;
        }
        if let Some(nd) = &self.nd {
            nd.watch(&v6).map_err(|error| error.problem())?;
        }
        Ok(())
    }

    /// Sends an advertisement, by way of `buffer`: to the group through the link `through`, if there is one.
    pub(super) fn send(
        &self,
        transmit: &Transmit,
        seal: Option<&mut Seal>,
        through: Option<u32>,
        buffer: &mut [u8; MAX_LEN],
    ) -> io::Result<()> {
        let socket = if transmit.src.is_ipv6() {
            &self.vrrp_v6
        } else {
            &self.vrrp_v4
        };
        let socket = socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let length = transmit.emit(buffer);
        let length = match seal {
            Some(seal) => seal.sign(transmit, buffer, length),
            None => length,
        };
        let message = buffer.get(..length).unwrap_or(buffer);
        if transmit.dst.is_multicast() {
            // There is no route to look up, and no firewall on the way out to be silenced by.
            socket.send_through(through.unwrap_or(self.ifindex), transmit.src, message)
        } else {
            socket.send(transmit.src, transmit.dst, message)
        }
    }

    /// Says or asks something about an address, to everybody on the link; through the link
    /// `through`, if there is one.
    pub(super) fn broadcast(&self, packet: Neighbor, through: Option<u32>) -> io::Result<()> {
        match packet {
            Neighbor::Arp(packet) => {
                let socket = self.arp.as_ref().ok_or(io::ErrorKind::NotConnected)?;
                match through {
                    Some(through) => socket.broadcast_through(through, &packet.emit()),
                    None => socket.broadcast(&packet.emit()),
                }
            }
            Neighbor::Nd(mut packet) => {
                let socket = self.nd.as_ref().ok_or(io::ErrorKind::NotConnected)?;
                if let Kind::Advertisement { router, .. } = &mut packet.kind {
                    *router = socket.forwards();
                }
                let mut buffer = [0; nd::LEN];
                let length = packet.emit(&mut buffer);
                let bytes = buffer.get(..length).unwrap_or(&buffer);
                let to = packet.group_mac().0;
                match through {
                    Some(through) => socket.send_through(through, to, bytes),
                    None => socket.send(to, bytes),
                }
            }
        }
    }

    /// The next advertisement that has arrived, or the station whose packet was none.
    pub(super) fn next_advert(&mut self, family: Family) -> Option<Parsed<Heard<'_>>> {
        let socket = match family {
            Family::V4 => &mut self.vrrp_v4,
            Family::V6 => &mut self.vrrp_v6,
        };
        // On an error the link went: the monitor tells what is left of it.
        let received = socket.as_mut()?.receive().ok()??;
        let parsed = Received::hear(Mac(received.mac), received.packet);
        Some(parsed.map_err(|error| (received.mac, error)))
    }

    /// The next claim or probe that has arrived.
    pub(super) fn next_neighbor(&mut self, family: Family) -> Option<Parsed<Neighbor>> {
        Some(match family {
            Family::V4 => {
                let (mac, packet) = self.arp.as_mut()?.receive().ok()??;
                let parsed = arp::Packet::parse(packet).map(Neighbor::Arp);
                parsed.map_err(|error| (mac, error))
            }
            Family::V6 => {
                let (mac, packet) = self.nd.as_mut()?.receive().ok()??;
                let parsed = nd::Packet::parse(Mac(mac), packet).map(Neighbor::Nd);
                parsed.map_err(|error| (mac, error))
            }
        })
    }

    /// Waits for a frame of another station, and asks the router of this link for one: on a quiet
    /// link the first claim would otherwise wait in vain.
    pub(super) fn listen(
        &mut self,
        now: Instant,
        chosen: &Chosen,
        monitor: &mut Monitor,
        waiter: &Waiter,
    ) {
        if self.listening.is_some() {
            return;
        }
        // Without it the wait ends by its limit.
        let Ok(station) = StationListener::open(chosen.ifindex, chosen.mac) else {
            return;
        };
        if waiter.add(&station, SOCKETS).is_err() {
            return;
        }
        let router = monitor.gateway(chosen.ifindex, Family::of(chosen.address));
        let question =
            router.and_then(|router| Neighbor::question(chosen.address, Mac(chosen.mac), router));
        self.listening = Some(Listening {
            station,
            question,
            ask_at: now,
        });
    }

    /// The listener, as soon as it heard another station.
    pub(super) fn heard(&mut self) -> Option<StationListener> {
        let listening = self
            .listening
            .take_if(|listening| listening.station.heard().unwrap_or_default());
        listening.map(|listening| listening.station)
    }

    pub(super) fn ask_at(&self) -> Option<Instant> {
        let listening = self.listening.as_ref()?;
        listening.question.map(|_| listening.ask_at)
    }

    pub(super) fn ask_for_a_frame(&mut self, now: Instant) {
        let Some(listening) = &mut self.listening else {
            return;
        };
        let Some(question) = listening.question else {
            return;
        };
        if listening.ask_at <= now {
            listening.ask_at = now + ASK_EVERY;
            // Not sent is not answered, and asked again.
            let _ = self.broadcast(question, None);
        }
    }

    /// Counts what the kernel dropped because it was not taken in time.
    pub(super) fn count_lost(&mut self) {
        let sockets = self.vrrp_v4.iter().chain(&self.vrrp_v6);
        let lost: u64 = sockets.map(|socket| u64::from(socket.take_drops())).sum();
        if lost > 0 {
            *self.counters.0.entry("queue_full").or_default() += lost;
        }
    }

    /// Counts a dropped packet; whether it is worth a line in the log.
    pub(super) fn dropped(
        &mut self,
        now: Instant,
        reason: &'static str,
        mac: kedge_net::Mac,
    ) -> bool {
        self.counters.count(reason);
        self.malformed = Some(Malformed {
            reason,
            mac,
            at: now,
        });
        let log = self.log_from <= now;
        if log {
            self.log_from = now + LOG_EVERY;
        }
        log
    }
}

impl Counters {
    pub(super) fn count(&mut self, reason: &'static str) {
        *self.0.entry(reason).or_default() += 1;
    }
}

/// Opens a socket, if it is not open yet, and waits for it too.
fn ensure<S: AsFd, E: Coded>(
    slot: &mut Option<S>,
    waiter: &Waiter,
    open: impl FnOnce() -> Result<S, E>,
) -> Result<(), Problem> {
    if slot.is_some() {
        return Ok(());
    }
    let socket = open().map_err(|error| error.problem())?;
    waiter.add(&socket, SOCKETS).map_err(|error| {
        Problem::new(
            kedge_core::Code::VrrpSocket,
            "cannot wait for the VRRP sockets",
        )
        .evidence(error.to_string())
    })?;
    *slot = Some(socket);
    Ok(())
}

const ASK_EVERY: Duration = Duration::from_secs(1);
const LOG_EVERY: Duration = Duration::from_secs(10);
