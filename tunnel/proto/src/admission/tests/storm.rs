//! Thousands with a right to a handshake that call at once, from ports of one address.

use super::*;

/// A host that asks again after five seconds, or at once with the cookie it was given.
struct Host {
    sender: Sender,
    /// When it asks next.
    at: Option<Instant>,
    asked: u32,
}

/// What became of them.
struct Arrival {
    /// Until the last was served.
    last: Duration,
    /// How often the one that asked most asked.
    asked: u32,
    /// How often any did.
    in_all: usize,
}

/// Calls of `many` hosts, `apart` from each other, at a worker that takes 32 datagrams before it
/// carries out eight handshakes that cost `cost` each.
fn storm(many: u16, known: bool, cost: Duration, apart: Duration) -> Arrival {
    let mut world = World::new();
    world.cost = cost;
    let begun = world.now;
    let host = |number| Host {
        sender: Sender {
            from: from(1, number).into(),
            known,
            proven: false,
        },
        at: Some(begun + apart * u32::from(number)),
        asked: 0,
    };
    let mut hosts: Vec<Host> = (0..many).map(host).collect();
    let mut left = hosts.len();
    while left > 0 {
        let now = world.now;
        let due = |host: &&mut Host| host.at.is_some_and(|at| at <= now);
        let mut calls: Vec<&mut Host> = hosts.iter_mut().filter(due).collect();
        calls.sort_by_key(|host| host.at);
        let mut idle = calls.is_empty();
        for host in calls.into_iter().take(32) {
            host.call(&mut world);
        }
        for _ in 0..8 {
            let Some(waiting) = world.admission.next(world.now) else {
                break;
            };
            idle = false;
            world.now += cost;
            world.admission.took(cost);
            let host = &mut hosts[usize::from(waiting.from.there.port())];
            left -= usize::from(host.at.take().is_some());
        }
        if idle {
            world.now += Duration::from_micros(100);
        }
    }
    Arrival {
        last: world.now.since(begun),
        asked: hosts.iter().map(|host| host.asked).max().unwrap(),
        in_all: hosts.iter().map(|host| host.asked as usize).sum(),
    }
}

impl Host {
    fn call(&mut self, world: &mut World) {
        world.now += LOOK;
        self.asked += 1;
        let verdict = world.admission.admit(world.now, self.sender, &[1; 148]);
        let cookied = verdict == Ok(Verdict::Cookie) && !self.sender.proven;
        self.sender.proven |= cookied;
        let pause = Duration::from_millis(if cookied { 1 } else { 5_000 });
        self.at = Some(world.now + pause);
    }
}

#[test]
fn thousands_that_nobody_knows_are_all_served_by_the_second_time_they_ask() {
    let micros =
        |all: &[u64]| -> Vec<Duration> { all.iter().copied().map(Duration::from_micros).collect() };
    let small = (
        2_000,
        micros(&[50, 80, 110, 140, 170, 300]),
        micros(&[0, 50]),
    );
    let large = (10_000, micros(&[50, 140]), micros(&[20]));
    for (many, costs, gaps) in [small, large] {
        for cost in costs {
            for &apart in &gaps {
                let arrival = storm(many, false, cost, apart);
                let case = format!("{many} {cost:?} {apart:?}: {:?}", arrival.last);
                assert!(arrival.asked <= 2, "{case}, {} times", arrival.asked);
                let least = (cost.max(apart) + LOOK * 2) * u32::from(many);
                let limit = least.mul_f64(1.3) + Duration::from_millis(20);
                assert!(arrival.last < limit, "{case}");
            }
        }
    }
}

#[test]
fn a_gateway_that_restarts_serves_thousands_behind_one_address_without_a_cookie() {
    for many in [2_000, 10_000] {
        let arrival = storm(many, true, HANDSHAKE, Duration::from_micros(20));
        assert_eq!(arrival.in_all, usize::from(many), "each asks once");
    }
}
