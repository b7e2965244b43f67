//! The sockets that packets arrive on, each open only while a session needs it.

use kedge_core::{Name, Problem};
use kedge_net::{bfd::Receiver, udp::Family, wait::Waiter};
use kedge_vip_proto::wire::bfd::{MULTIHOP_PORT, PORT};

use super::{BfdSpec, problems};

/// A family and a port.
#[derive(Debug)]
pub(super) struct Door {
    family: Family,
    pub(super) port: u16,
    pub(super) socket: Option<Receiver>,
    trouble: Option<Problem>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Doors(pub(super) [Door; 4]);

impl Doors {
    pub(super) fn new() -> Self {
        let door = |family, port| Door {
            family,
            port,
            socket: None,
            trouble: None,
        };
        Self([
            door(Family::V4, PORT),
            door(Family::V6, PORT),
            door(Family::V4, MULTIHOP_PORT),
            door(Family::V6, MULTIHOP_PORT),
        ])
    }

    /// Opens what `wanted` needs, and closes what nobody does.
    pub(super) fn fit<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a BfdSpec> + Clone,
        waiter: &Waiter,
        key: u64,
    ) {
        for door in &mut self.0 {
            let mut of_this = wanted.clone().filter(|spec| door.is_of(spec));
            let Some(first) = of_this.next() else {
                (door.socket, door.trouble) = (None, None);
                continue;
            };
            if door.socket.is_none() {
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
    fn is_of(&self, spec: &BfdSpec) -> bool {
        spec.port() == self.port && spec.family() == self.family
    }

    fn open(&mut self, name: &Name, waiter: &Waiter, key: u64) {
        let opened = Receiver::open(self.family, self.port);
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
