//! The VIP thread's side: what the guardian knows, and the page.

use std::{collections::BTreeMap, io, os::fd::BorrowedFd, sync::Arc};

use arc_swap::ArcSwapOption;
use kedge_core::Instant;
use kedge_net::channel::Channel;
use tracing::info;

use super::{
    mastership::{Mastership, Slot},
    message::{Message, Opened, Ward},
};

/// What tells the guardian about the VIPs. Nothing here waits.
#[derive(Debug)]
pub(crate) struct Link {
    page: Arc<Mastership>,
    connection: Arc<ArcSwapOption<Connection>>,
    /// The guardian that is told.
    number: u64,
    /// The guardian that was told everything.
    informed: u64,
    interfaces: BTreeMap<u32, Vec<Opened>>,
    wards: BTreeMap<Slot, Ward>,
}

/// A guardian that listens.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) channel: Channel,
}

/// An interface with VIPs, and the sockets that are open there.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) ifindex: u32,
    pub(crate) name: &'a str,
    pub(crate) sockets: Vec<(Opened, Vec<BorrowedFd<'a>>)>,
}

impl Link {
    pub(super) const fn new(
        page: Arc<Mastership>,
        connection: Arc<ArcSwapOption<Connection>>,
    ) -> Self {
        Self {
            page,
            connection,
            number: 0,
            informed: 0,
            interfaces: BTreeMap::new(),
            wards: BTreeMap::new(),
        }
    }

    /// The page that says which VIPs are held here.
    pub(crate) fn page(&self) -> &Mastership {
        &self.page
    }

    /// Leaves everything to the guardian until another agent comes, `until` then at the latest;
    /// whether there is a guardian. It was told everything before.
    pub(crate) fn keep(&self, until: Instant) -> bool {
        let listens = self.connection.load().is_some();
        if listens {
            self.page.keep(until);
            // It goes on when the other end is closed.
            self.connection.store(None);
        }
        listens
    }

    /// Tells what is new; whether all of it is told. One that is not listening is told everything
    /// when it is there.
    pub(crate) fn tell(&mut self, interfaces: &[Shared<'_>], wards: Vec<Ward>) -> bool {
        let Some(connection) = self.connection.load_full() else {
            return true;
        };
        if connection.number != self.number {
            self.number = connection.number;
            self.interfaces.clear();
            self.wards.clear();
        }
        let vips = wards.len();
        match self.tell_all(&connection.channel, interfaces, wards) {
            Ok(()) => {
                if self.informed != self.number {
                    self.informed = self.number;
                    info!(vips, "the guardian was told of the VIPs");
                }
                true
            }
            // One that is gone is replaced, and the next is told everything.
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    fn tell_all(
        &mut self,
        channel: &Channel,
        interfaces: &[Shared<'_>],
        wards: Vec<Ward>,
    ) -> io::Result<()> {
        let is_ward = |slot: &Slot| wards.iter().any(|ward| ward.slot == *slot);
        while let Some(slot) = self.wards.keys().copied().find(|slot| !is_ward(slot)) {
            send(channel, &Message::WardGone { slot }, &Vec::new())?;
            self.wards.remove(&slot);
        }
        for interface in interfaces {
            let sockets: Vec<Opened> = interface.sockets.iter().map(|(it, _)| *it).collect();
            if self.interfaces.get(&interface.ifindex) == Some(&sockets) {
                continue;
            }
            let beside = interface.sockets.iter().flat_map(|(_, beside)| beside);
            let message = Message::Interface {
                ifindex: interface.ifindex,
                name: interface.name.to_owned(),
                sockets: sockets.clone(),
            };
            send(channel, &message, &beside.copied().collect::<Vec<_>>())?;
            self.interfaces.insert(interface.ifindex, sockets);
        }
        for ward in wards {
            if self.wards.get(&ward.slot) == Some(&ward) {
                continue;
            }
            send(channel, &Message::Ward(Box::new(ward.clone())), &Vec::new())?;
            self.wards.insert(ward.slot, ward);
        }
        let is_open = |index: &u32| interfaces.iter().any(|it| it.ifindex == *index);
        while let Some(ifindex) = self.interfaces.keys().copied().find(|it| !is_open(it)) {
            send(channel, &Message::InterfaceGone { ifindex }, &Vec::new())?;
            self.interfaces.remove(&ifindex);
        }
        Ok(())
    }
}

/// What is too long for a message is no VIP of this world; nobody else is kept waiting for it.
pub(super) fn send(
    channel: &Channel,
    message: &Message,
    beside: &[BorrowedFd<'_>],
) -> io::Result<()> {
    match message.emit() {
        Some(bytes) => channel.send(&bytes, beside),
        None => Ok(()),
    }
}
