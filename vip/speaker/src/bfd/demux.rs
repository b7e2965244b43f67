//! The sockets that packets arrive on, each there only while a session needs it.

use std::{path::Path, sync::Arc};

use kedge_core::{Name, Problem};
use kedge_net::{
    bfd::{self, Receiver},
    udp::Family,
    wait::Waiter,
};

use super::{BfdSpec, problems};

/// A network namespace, and a port.
pub(super) type Place = (Option<Arc<Path>>, u16);

/// A family and a port, in a network namespace.
#[derive(Debug)]
pub(super) struct Door {
    inside: Option<Arc<Path>>,
    family: Family,
    port: u16,
    pub(super) socket: Option<Receiver>,
    trouble: Option<Problem>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Doors(pub(super) Vec<Door>);

impl Doors {
    /// Opens what `wanted` needs, and closes what nobody does.
    pub(super) fn fit<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a BfdSpec> + Clone,
        waiter: &Waiter,
        key: u64,
    ) {
        self.0
            .retain(|door| wanted.clone().any(|spec| door.is_of(spec)));
        for spec in wanted.clone() {
            if !self.0.iter().any(|door| door.is_of(spec)) {
                self.0.push(Door::of(spec));
            }
        }
        // Once each, however many sessions wait for it.
        for door in self.0.iter_mut().filter(|door| door.socket.is_none()) {
            if let Some(first) = wanted.clone().find(|spec| door.is_of(spec)) {
                door.open(&first.name, waiter, key);
            }
        }
    }

    /// Why nothing can be received for a session.
    pub(super) fn trouble(&self, spec: &BfdSpec) -> Option<&Problem> {
        let door = self.0.iter().find(|door| door.is_of(spec))?;
        door.trouble.as_ref()
    }
}

impl Door {
    fn of(spec: &BfdSpec) -> Self {
        Self {
            inside: spec.inside.clone(),
            family: spec.family(),
            port: spec.port(),
            socket: None,
            trouble: None,
        }
    }

    fn is_of(&self, spec: &BfdSpec) -> bool {
        spec.port() == self.port && spec.family() == self.family && spec.inside == self.inside
    }

    /// Where it is.
    pub(super) fn place(&self) -> Place {
        (self.inside.clone(), self.port)
    }

    fn open(&mut self, name: &Name, waiter: &Waiter, key: u64) {
        let open = || Receiver::open(self.family, self.port);
        let opened = bfd::within(self.inside.as_deref(), open);
        let opened = opened.and_then(|socket| {
            waiter.add(&socket, key)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => (self.socket, self.trouble) = (Some(socket), None),
            Err(error) => self.trouble = Some(problems::socket(name, &error)),
        }
    }
}
