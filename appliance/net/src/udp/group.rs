//! One port for several workers: a socket for each, and which of them the kernel gives a datagram to.
//!
//! ```text
//!   type 1 (initiation), anything else ─► the door: a flood there fills no other queue
//!   type 2, 3, 4 ─► the worker whose number is the second byte of the receiver's index
//! ```
//! What comes before the program is in force, or in one buffer with others (`UDP_GRO`), may be another
//! worker's: every worker looks.

use std::{io, os::fd::AsFd as _};

use socket2::SockRef;

use super::{BindError, Family, Sockets, bind};
use crate::{bpf, sys};

/// Sockets on one port.
#[derive(Debug)]
pub struct Group {
    /// Where initiations come, which the first worker looks after.
    pub door: Option<Sockets>,
    /// Those of each worker.
    pub workers: Vec<Sockets>,
}

impl Group {
    /// Binds `port` for so many workers; 0 lets the kernel choose. One worker has no door.
    ///
    /// # Errors
    ///
    /// Somebody else has the port, or the kernel knows no such groups.
    pub fn bind(port: u16, workers: u8) -> Result<Self, BindError> {
        // Alone, so that a port that somebody has is taken, whatever they share it with.
        let first = Sockets::bind(port)?;
        if workers <= 1 {
            return Ok(Self {
                door: None,
                workers: vec![first],
            });
        }
        let port = first.port();
        let refused = |source| BindError::Refused { port, source };
        for socket in first.v4.iter().chain(&first.v6) {
            SockRef::from(socket)
                .set_reuse_port(true)
                .map_err(refused)?;
        }
        let mut all = Vec::with_capacity(usize::from(workers));
        for _ in 0..workers {
            let socket = |family, there: bool| {
                if there {
                    bind(family, port, true)
                } else {
                    Ok(None)
                }
            };
            all.push(Sockets {
                v4: socket(Family::V4, first.v4.is_some())?,
                v6: socket(Family::V6, first.v6.is_some())?,
                port,
            });
        }
        first.steer(workers).map_err(refused)?;
        Ok(Self {
            door: Some(first),
            workers: all,
        })
    }

    /// Every pair of sockets.
    pub fn all(&self) -> impl Iterator<Item = &Sockets> {
        self.door.iter().chain(&self.workers)
    }

    /// The port in use.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.workers.first().map_or(0, Sockets::port)
    }
}

impl Sockets {
    /// Says which of those that share the port gets what. The kernel takes that once there are two.
    fn steer(&self, workers: u8) -> io::Result<()> {
        let program = program(workers);
        for socket in self.v4.iter().chain(&self.v6) {
            sys::packet::set_steering(socket.as_fd(), &program)?;
        }
        Ok(())
    }
}

/// The number of the socket in the order of their binding, 0 the door, by the payload of a datagram. A load
/// beyond it ends the program with 0.
fn program(workers: u8) -> Vec<sys::packet::Instruction> {
    let to_end = 4 + 2 * workers;
    let mut program = vec![
        bpf::load_byte(0),
        bpf::jump_equal(1, to_end, 0),
        bpf::jump_equal(2, 2, 0),
        bpf::load_byte(5),
        bpf::jump(1),
        bpf::load_byte(9),
    ];
    for worker in 0..workers {
        let socket = u32::from(worker) + 1;
        program.extend([bpf::jump_equal(worker.into(), 0, 1), bpf::take(socket)]);
    }
    program.push(bpf::take(0));
    program
}

#[cfg(test)]
mod tests {
    use std::{
        io::IoSlice,
        net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    };

    use super::*;
    use crate::udp::{Form, Inbox};

    /// What came to each pair of sockets, the door's first.
    fn came(group: &Group, family: Family) -> Vec<Vec<Vec<u8>>> {
        let mut inbox = Inbox::new();
        let all = group.all().map(|sockets| {
            let mut came = Vec::new();
            while inbox.fill(sockets, family).is_ok() {
                for received in inbox.received() {
                    came.extend(received.unwrap().datagrams().map(|bytes| bytes.to_vec()));
                }
            }
            came
        });
        all.collect()
    }

    #[test]
    fn each_datagram_comes_to_the_worker_that_it_names() {
        let sender = Sockets::bind(0).unwrap();
        for workers in 2..=4 {
            let group = Group::bind(0, workers).unwrap();
            assert_eq!(group.all().count(), usize::from(workers) + 1);
            for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
                let to = SocketAddr::new(address, group.port());
                let family = Family::of(address);
                if group.workers[0].fd(family).is_none() {
                    continue;
                }
                let mut expected = vec![Vec::new(); usize::from(workers) + 1];
                for (kind, number) in (1..=5_u8).flat_map(|kind| (0..6_u8).map(move |n| (kind, n)))
                {
                    let mut bytes = vec![0; 100];
                    bytes[0] = kind;
                    bytes[if kind == 2 { 9 } else { 5 }] = number;
                    // What another field says does not count.
                    bytes[if kind == 2 { 5 } else { 9 }] = 1;
                    let named = number < workers && kind != 1;
                    let at = if named { usize::from(number) + 1 } else { 0 };
                    sender
                        .send(to, None, &[IoSlice::new(&bytes)], Form::ONE)
                        .unwrap();
                    expected[at].push(bytes);
                }
                for short in [&[][..], &[4], &[4, 0, 0, 0, 1], &[2, 0, 0, 0, 1, 1]] {
                    sender
                        .send(to, None, &[IoSlice::new(short)], Form::ONE)
                        .unwrap();
                    expected[0].push(short.to_vec());
                }
                assert_eq!(came(&group, family), expected, "{workers} workers");
            }
        }
    }

    #[test]
    fn a_port_that_is_shared_is_taken_for_everybody_else() {
        let group = Group::bind(0, 2).unwrap();
        for workers in [1, 2] {
            let refused = Group::bind(group.port(), workers);
            assert!(matches!(refused, Err(BindError::PortInUse { .. })));
        }
    }
}
