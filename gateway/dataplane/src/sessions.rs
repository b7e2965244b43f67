//! Sessions of datagrams: which member serves which client. No I/O.
//!
//! Datagrams have no connection, so a client's address and port stand for one. A session ends when
//! neither side said anything for a while; when its member dies, the client's next datagram moves it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use kedge_control::balance::Member;

use crate::pool::Pool;

/// The sessions of one frontend.
#[derive(Debug)]
pub(crate) struct Sessions {
    idle: Duration,
    most: usize,
    by_client: HashMap<SocketAddr, Session>,
}

#[derive(Debug)]
struct Session {
    member: Member,
    last: Instant,
}

/// Where a client's datagram goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Where the ones before went.
    Same,
    /// To this member, for the first time, or since the one before died.
    Opened(Member),
    /// There is no room for another session.
    Full,
    /// Nobody lives who could take it.
    Nobody,
}

impl Sessions {
    /// None yet; at most `most`, each for as long as it is not silent for `idle`.
    pub fn new(idle: Duration, most: usize) -> Self {
        Self {
            idle,
            most,
            by_client: HashMap::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// A client says something.
    pub fn datagram(&mut self, now: Instant, client: SocketAddr, pool: &mut Pool) -> Way {
        if let Some(session) = self.by_client.get_mut(&client) {
            if pool.takes(&session.member) {
                session.last = now;
                return Way::Same;
            }
            pool.closed(&session.member);
            let Some(member) = pool.choose(&[]) else {
                self.by_client.remove(&client);
                return Way::Nobody;
            };
            session.member = member.clone();
            session.last = now;
            return Way::Opened(member);
        }
        if self.by_client.len() >= self.most {
            return Way::Full;
        }
        let Some(member) = pool.choose(&[]) else {
            return Way::Nobody;
        };
        let session = Session {
            member: member.clone(),
            last: now,
        };
        self.by_client.insert(client, session);
        Way::Opened(member)
    }

    /// Its member says something to a client.
    pub fn answered(&mut self, now: Instant, client: SocketAddr) {
        if let Some(session) = self.by_client.get_mut(&client) {
            session.last = now;
        }
    }

    /// Ends a session that cannot be had.
    pub fn end(&mut self, client: SocketAddr, pool: &mut Pool) {
        if let Some(session) = self.by_client.remove(&client) {
            pool.closed(&session.member);
        }
    }

    /// Ends those that were silent for too long; says whose they were.
    pub fn expire(&mut self, now: Instant, pool: &mut Pool) -> Vec<SocketAddr> {
        let idle = self.idle;
        let is_over = |session: &Session| now.saturating_duration_since(session.last) >= idle;
        let over = self
            .by_client
            .iter()
            .filter(|(_, session)| is_over(session));
        let over: Vec<SocketAddr> = over.map(|(client, _)| *client).collect();
        for client in &over {
            self.end(*client, pool);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Hosts, Liveness};

    const IDLE: Duration = Duration::from_secs(10);

    fn client(port: u16) -> SocketAddr {
        SocketAddr::from(([203, 0, 113, 50], port))
    }

    fn member(host: &str) -> Member {
        Member {
            host: host.to_owned(),
            address: "198.18.0.2".parse().unwrap(),
            port: 53,
            draining: false,
        }
    }

    fn heard(pool: &mut Pool, host: &str, alive: bool) {
        let because = String::new();
        pool.heard(host, &Liveness { alive, because });
    }

    fn two() -> Pool {
        let mut pool = Pool::default();
        pool.set(vec![member("a"), member("b")], &Hosts::default());
        heard(&mut pool, "a", true);
        heard(&mut pool, "b", true);
        pool
    }

    #[test]
    fn a_client_stays_and_another_port_of_it_is_another_client() {
        let (mut pool, now) = (two(), Instant::now());
        let mut sessions = Sessions::new(IDLE, 10);
        let Way::Opened(first) = sessions.datagram(now, client(1), &mut pool) else {
            panic!("opened");
        };
        let Way::Opened(second) = sessions.datagram(now, client(2), &mut pool) else {
            panic!("opened");
        };
        assert_ne!(first, second, "the one with fewer sessions");
        for _ in 0..10 {
            assert_eq!(sessions.datagram(now, client(1), &mut pool), Way::Same);
        }
        assert_eq!(sessions.len(), 2);
    }

    #[test]
    fn a_session_of_a_dead_host_moves_with_the_next_datagram() {
        let (mut pool, now) = (two(), Instant::now());
        let mut sessions = Sessions::new(IDLE, 10);
        let Way::Opened(first) = sessions.datagram(now, client(1), &mut pool) else {
            panic!("opened");
        };
        heard(&mut pool, &first.host, false);
        let other = if first.host == "a" { "b" } else { "a" };
        let moved = sessions.datagram(now, client(1), &mut pool);
        assert_eq!(moved, Way::Opened(member(other)));
        assert_eq!(sessions.datagram(now, client(1), &mut pool), Way::Same);
        heard(&mut pool, other, false);
        assert_eq!(sessions.datagram(now, client(1), &mut pool), Way::Nobody);
        assert_eq!(sessions.len(), 0);
        heard(&mut pool, other, true);
        let back = sessions.datagram(now, client(1), &mut pool);
        assert_eq!(back, Way::Opened(member(other)));
    }

    #[test]
    fn silence_of_both_sides_ends_a_session_and_frees_its_place() {
        let (mut pool, start) = (two(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut sessions = Sessions::new(IDLE, 1);
        assert!(matches!(
            sessions.datagram(at(0), client(1), &mut pool),
            Way::Opened(_)
        ));
        assert_eq!(sessions.datagram(at(0), client(2), &mut pool), Way::Full);
        sessions.answered(at(9), client(1));
        assert_eq!(sessions.expire(at(18), &mut pool), []);
        assert_eq!(sessions.datagram(at(18), client(1), &mut pool), Way::Same);
        assert_eq!(sessions.expire(at(27), &mut pool), []);
        assert_eq!(sessions.expire(at(28), &mut pool), [client(1)]);
        assert!(matches!(
            sessions.datagram(at(28), client(2), &mut pool),
            Way::Opened(_)
        ));
    }

    #[test]
    fn a_member_that_is_taken_away_keeps_no_session() {
        let (mut pool, now) = (two(), Instant::now());
        let mut sessions = Sessions::new(IDLE, 10);
        let Way::Opened(first) = sessions.datagram(now, client(1), &mut pool) else {
            panic!("opened");
        };
        let other = if first.host == "a" { "b" } else { "a" };
        let mut hosts = Hosts::default();
        let because = String::new();
        hosts.insert(
            other.to_owned(),
            Liveness {
                alive: true,
                because,
            },
        );
        pool.set(vec![member(other)], &hosts);
        let moved = sessions.datagram(now, client(1), &mut pool);
        assert_eq!(moved, Way::Opened(member(other)));
    }
}
