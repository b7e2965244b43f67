//! One processor, a flood, and those who mean it.

mod storm;

use std::net::SocketAddr;

use super::*;

/// What it costs to look at an initiation, and to carry one out.
const LOOK: Duration = Duration::from_micros(3);
const HANDSHAKE: Duration = Duration::from_micros(170);

fn from(number: u32, port: u16) -> SocketAddr {
    SocketAddr::from(((0x0a00_0000 + number).to_be_bytes(), port))
}

/// Somebody with a right to a handshake.
struct Honest {
    sender: Sender,
    /// Does not bring cookies back, like a client that waits five seconds first.
    is_slow: bool,
    asked_at: Instant,
    /// When it asks next.
    at: Option<Instant>,
    done: Option<Duration>,
}

struct Flood {
    /// Initiations a second.
    rate: u64,
    sources: u32,
    /// Whether they seem to come from where a peer was heard from.
    known: bool,
    /// Whether they bring cookies back.
    proven: bool,
}

struct World {
    now: Instant,
    /// What a handshake costs.
    cost: Duration,
    admission: Admission,
    flooded: u64,
    looked: u64,
    carried_out: u64,
}

impl World {
    fn new() -> Self {
        Self {
            now: Instant::ZERO + Duration::from_secs(100),
            cost: HANDSHAKE,
            admission: Admission::default(),
            flooded: 0,
            looked: 0,
            carried_out: 0,
        }
    }

    /// Lets `length` pass; a worker that looks at all there is, then carries out up to eight.
    fn run(&mut self, length: Duration, flood: Option<&Flood>, honest: &mut [Honest]) {
        let begun = self.now;
        let before = self.flooded;
        while self.now.since(begun) < length {
            if let Some(flood) = flood {
                let due =
                    before + flood.rate * self.now.since(begun).as_micros() as u64 / 1_000_000;
                // More than the socket's buffer holds is lost.
                self.flooded = self.flooded.max(due.saturating_sub(5_000));
                while self.flooded < due {
                    self.attack(flood);
                }
            }
            for one in &mut *honest {
                if one.at.is_some_and(|at| at <= self.now) {
                    self.ask(one);
                }
            }
            let mut idle = true;
            for _ in 0..8 {
                let Some(waiting) = self.admission.next(self.now) else {
                    break;
                };
                idle = false;
                self.carry_out(&waiting, honest);
            }
            if idle {
                self.now += Duration::from_micros(100);
            }
        }
    }

    fn attack(&mut self, flood: &Flood) {
        let number = (self.flooded % u64::from(flood.sources)) as u32;
        self.flooded += 1;
        let mut sender = Sender {
            from: from(number, 1).into(),
            known: flood.known,
            proven: false,
        };
        self.now += LOOK;
        self.looked += 1;
        let verdict = self.admission.admit(self.now, sender, &[0; 148]);
        if flood.proven && verdict == Ok(Verdict::Cookie) {
            sender.proven = true;
            self.now += LOOK;
            _ = self.admission.admit(self.now, sender, &[0; 148]);
        }
    }

    fn ask(&mut self, one: &mut Honest) {
        self.now += LOOK;
        let patience = Duration::from_secs(5);
        one.at = Some(self.now + patience);
        let verdict = self.admission.admit(self.now, one.sender, &[1; 148]);
        if verdict == Ok(Verdict::Cookie) {
            one.sender.proven = true;
            if !one.is_slow {
                one.at = Some(self.now + Duration::from_millis(20));
            }
        }
    }

    fn carry_out(&mut self, waiting: &Waiting, honest: &mut [Honest]) {
        self.now += self.cost;
        self.carried_out += 1;
        self.admission.took(self.cost);
        if waiting.initiation[0] == 0 {
            self.admission.failed(self.now, waiting);
            return;
        }
        let one = honest
            .iter_mut()
            .find(|one| one.sender.from == waiting.from);
        let one = one.unwrap();
        one.at = None;
        one.done = Some(self.now.since(one.asked_at));
    }

    fn honest(&self, number: u32, known: bool) -> Honest {
        Honest {
            sender: Sender {
                from: from(1_000_000 + number, 51_820).into(),
                known,
                proven: false,
            },
            is_slow: false,
            asked_at: self.now,
            at: Some(self.now),
            done: None,
        }
    }
}

/// How long a known peer, a stranger with Kedge's manners and one with wireguard-go's wait in the
/// tenth second of a flood.
fn under(flood: &Flood) -> (World, [Option<Duration>; 3]) {
    let mut world = World::new();
    world.run(Duration::from_secs(9), Some(flood), &mut []);
    let mut honest = [
        world.honest(1, true),
        world.honest(2, false),
        world.honest(3, false),
    ];
    honest[2].is_slow = true;
    world.run(Duration::from_secs(7), Some(flood), &mut honest);
    let waited = honest.map(|one| one.done);
    (world, waited)
}

#[test]
fn everybody_is_served_soon_whoever_floods() {
    let floods = [
        (50_000, 1, false, false),
        (50_000, 10_000, false, false),
        (50_000, 10_000, false, true),
        (20_000, 1_000_000, false, false),
        (50_000, 50, true, false),
    ];
    for (rate, sources, known, proven) in floods {
        let flood = Flood {
            rate,
            sources,
            known,
            proven,
        };
        let (world, waited) = under(&flood);
        let case = format!("{rate} {sources} {known} {proven}: {waited:?}");
        for (waited, limit) in waited.into_iter().zip([200, 1_000, 6_000]) {
            let waited = waited.unwrap_or_else(|| panic!("not served: {case}"));
            assert!(waited < Duration::from_millis(limit), "{case}");
        }
        // What the handshakes of a flood may have of the processor.
        let share = world.carried_out as f64 * HANDSHAKE.as_secs_f64() / 16.0;
        assert!(share < 0.6, "{case}: {share}");
    }
}

#[test]
fn a_flood_that_ends_leaves_nothing_behind() {
    let mut world = World::new();
    let flood = Flood {
        rate: 50_000,
        sources: 10_000,
        known: false,
        proven: false,
    };
    world.run(Duration::from_secs(3), Some(&flood), &mut []);
    assert!(world.admission.demands_cookies(world.now));
    let mut one = [world.honest(1, false)];
    one[0].at = Some(world.now + Duration::from_secs(2));
    world.run(Duration::from_secs(3), None, &mut one);
    assert!(one[0].done.is_some() && !one[0].sender.proven);
    assert!(!world.admission.demands_cookies(world.now) && world.admission.is_empty());
}
