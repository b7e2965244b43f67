//! The sockets of a port, as all workers of a device have them.

use std::{io, sync::Arc};

use kedge_net::udp::{Group, Sockets};

use crate::network::Port;

/// The sockets of a port: for each worker its own, and the door of the first. None of them is open where a
/// device is to be deaf.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    door: Option<Arc<Sockets>>,
    workers: Vec<Arc<Sockets>>,
}

impl From<Group> for Ports {
    fn from(group: Group) -> Self {
        Self {
            door: group.door.map(Arc::new),
            workers: group.workers.into_iter().map(Arc::new).collect(),
        }
    }
}

impl Ports {
    /// Nothing to hear with, for so many workers.
    pub(crate) fn closed(workers: u8) -> Self {
        Self {
            door: None,
            workers: (0..workers).map(|_| Arc::new(Sockets::closed())).collect(),
        }
    }

    /// What each worker looks after, the first first.
    pub(crate) fn each(&self) -> impl Iterator<Item = Port> {
        let mut door = self.door.clone();
        self.workers.iter().map(move |sockets| Port {
            sockets: Arc::clone(sockets),
            door: door.take(),
        })
    }

    /// Every pair of sockets.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Sockets> {
        self.door
            .iter()
            .chain(&self.workers)
            .map(|sockets| &**sockets)
    }

    /// Whether anything can be sent.
    pub(crate) fn are_open(&self) -> bool {
        self.all().any(Sockets::are_open)
    }

    /// The port in use, 0 while they are closed.
    pub(crate) fn port(&self) -> u16 {
        self.workers.first().map_or(0, |sockets| sockets.port())
    }

    /// Marks what is sent from here on; 0 is no mark.
    ///
    /// # Errors
    ///
    /// The kernel's answer: no privilege.
    pub(crate) fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.all().try_for_each(|sockets| sockets.set_mark(mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_worker_has_the_door_and_each_its_own_sockets() {
        for workers in [1, 3] {
            let ports = Ports::from(Group::bind(0, workers).unwrap());
            let each: Vec<Port> = ports.each().collect();
            assert_eq!(each.len(), usize::from(workers));
            let doors = each.iter().map(|port| port.door.is_some());
            let expected = (0..workers).map(|number| number == 0 && workers > 1);
            assert!(doors.eq(expected), "{workers} workers");
            assert!(each.iter().all(|port| port.sockets.port() == ports.port()));
            assert!(ports.are_open() && ports.port() != 0);
        }
    }

    #[test]
    fn a_deaf_device_has_as_many_places_and_nothing_in_them() {
        let ports = Ports::closed(2);
        assert_eq!(ports.each().count(), 2);
        assert!(!ports.are_open());
        assert_eq!(ports.port(), 0);
        ports.set_mark(7).unwrap();
    }
}
