//! Whether what arrives at this host gets into its sockets.
//!
//! The kernel hands packets to sockets in its softirq, and leaves that to a thread of the ordinary class
//! (`ksoftirqd`) once it takes too long. On a processor that has far more to do than it can, as while a host
//! boots, that thread waits for its turn and one of the real-time class does not: adverts are here, nobody
//! hears them, and the Active seems to be silent. A datagram to oneself takes the same way, and is there at
//! once where nothing waits (docs/adr/0067).

use std::{
    io,
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use kedge_core::Instant;

/// A socket that hears itself; without one nothing can be said.
#[derive(Debug, Default)]
pub(super) struct Ear {
    socket: Option<UdpSocket>,
    /// The number of the last datagram, and of the last that came.
    sent: u32,
    came: u32,
    asked_at: Instant,
}

impl Ear {
    /// In the network namespace of the calling thread. A namespace whose loopback interface is down has
    /// none, and is not asked about it.
    pub fn open(now: Instant) -> Self {
        let mut ear = Self {
            socket: itself().ok(),
            asked_at: now,
            ..Self::default()
        };
        ear.ask();
        ear
    }

    /// Whether what had arrived when this was asked first is in the sockets. Where a datagram to oneself never
    /// comes, as behind a firewall, it cannot be told, and the answer is yes.
    pub fn hears(&mut self, now: Instant) -> bool {
        if self.socket.is_none() {
            return true;
        }
        self.listen();
        if self.came == self.sent {
            self.asked_at = now;
        }
        let is_late = now.since(self.asked_at) >= PATIENCE;
        if self.came == self.sent || is_late {
            self.ask();
            self.listen();
        }
        self.came == self.sent || is_late
    }

    fn ask(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        // One that is not sent does not come.
        _ = self
            .socket
            .as_ref()
            .map(|it| it.send(&self.sent.to_le_bytes()));
    }

    fn listen(&mut self) {
        let mut number = [0; 4];
        while let Some(Ok(4)) = self.socket.as_ref().map(|it| it.recv(&mut number)) {
            self.came = u32::from_le_bytes(number);
        }
    }
}

fn itself() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// How long a Backup doubts its own ears. Who hears nothing for longer is not helped by waiting.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits before it listens again.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use std::process::Command;

    use kedge_net::{
        netns::{Lease, Namespace},
        nft, privilege,
    };

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn it_is_deaf_for_as_long_as_it_does_not_hear_itself_and_not_for_ever() {
        if privilege::check().is_err() {
            return;
        }
        let lease = Lease::take().unwrap();
        let namespace = Namespace::create(&lease.namespace("a")).unwrap();
        namespace
            .run(|| {
                let mut none = Ear::open(at(0));
                assert!(none.hears(at(1)), "loopback is down");
                let ip = Command::new("ip")
                    .args(["link", "set", "lo", "up"])
                    .status();
                assert!(ip.unwrap().success());
                let mut ear = Ear::open(at(0));
                assert!(ear.hears(at(1)));
                assert!(ear.hears(at(2)));
                let rules = "table ip t {\n chain c {\n type filter hook input priority 0\n \
                             iif lo meta l4proto udp drop\n }\n }\n";
                nft::apply_text(rules).unwrap();
                assert!(!ear.hears(at(10_000)));
                assert!(!ear.hears(at(11_999)));
                assert!(ear.hears(at(12_000)), "it cannot be told");
                assert!(ear.hears(at(12_010)), "nor is it asked for long again");
                nft::apply_text("flush ruleset\n").unwrap();
                assert!(ear.hears(at(20_000)));
                nft::apply_text(rules).unwrap();
                assert!(!ear.hears(at(30_000)), "it was heard in between");
            })
            .unwrap();
    }
}
