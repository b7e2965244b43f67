//! Whatever a network does, the machine follows it.

use proptest::prelude::*;

use super::*;

/// What a network does for a while.
#[derive(Clone, Copy, Debug)]
struct Spell {
    millis: u64,
    udp: bool,
    other: bool,
    tls: bool,
}

fn spell() -> impl Strategy<Value = Spell> {
    let ways = (any::<bool>(), any::<bool>(), any::<bool>());
    (1_u64..100_000, ways).prop_map(|(millis, (udp, other, tls))| Spell {
        millis,
        udp,
        other,
        tls,
    })
}

/// A network, and the machine in it, a tenth of a second at a time.
struct World {
    machine: Fallback,
    now: u64,
    /// When the call that is under way is decided.
    call: Option<u64>,
    stream: bool,
    taken: Vec<(u64, Way, Because)>,
}

impl World {
    fn step(&mut self, spell: Spell) {
        let Spell {
            udp, other, tls, ..
        } = spell;
        self.now += 100;
        let now = self.now;
        if self.call.is_some_and(|at| at <= now) {
            self.call = None;
            self.stream = tls;
            let what = if tls { Input::Called } else { Input::Broken };
            self.give(what, spell);
        }
        let carried = match self.machine.way().0 {
            Way::Udp => udp,
            Way::Other => other,
            Way::Tls => tls && self.stream,
        };
        if carried && now.is_multiple_of(1_000) {
            self.give(Input::Answered(at(now)), spell);
        }
        self.machine.handle_timeout(at(now));
        self.execute(spell);
    }

    fn give(&mut self, input: Input, spell: Spell) {
        // A question may have been given up before its answer came.
        let _ = self.machine.handle_input(at(self.now), input);
        self.execute(spell);
    }

    fn execute(&mut self, spell: Spell) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Call => {
                    assert!(!self.stream && self.call.is_none(), "one call at a time");
                    self.call = Some(self.now + 300);
                }
                Output::HangUp => {
                    assert!(self.stream || self.call.is_some());
                    (self.stream, self.call) = (false, None);
                }
                Output::Take { way, because } => self.taken.push((self.now, way, because)),
                Output::Ask(number) if spell.udp => {
                    self.give(Input::AnsweredOverUdp(number), spell);
                }
                Output::AskOther(number) if spell.other => {
                    self.give(Input::AnsweredOverUdp(number), spell);
                }
                Output::Ask(_) | Output::AskOther(_) | Output::Proven => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_the_network_does_it_follows_and_does_not_flap(
        spells in prop::collection::vec(spell(), 1..20),
        best in 0_usize..3,
        has_other in any::<bool>(),
    ) {
        let ways = Ways { other: has_other, tls: true };
        let mut world = World {
            machine: with(ways),
            now: 0,
            call: None,
            stream: false,
            taken: Vec::new(),
        };
        // At the end it stays as it is for long enough.
        let last = Spell { millis: 180_000, udp: best == 0, other: best <= 1, tls: true };
        for spell in spells.into_iter().chain([last]) {
            for _ in 0..spell.millis.div_ceil(100) {
                let before = world.taken.len();
                world.step(spell);
                for (_, way, because) in &world.taken[before..] {
                    if let (Way::Tls, Because::Silent(silence)) = (way, because) {
                        prop_assert!(*silence >= secs(15));
                        prop_assert!(world.stream, "there is a stream");
                    }
                }
            }
        }
        let expected = match best {
            0 => Way::Udp,
            1 if has_other => Way::Other,
            _ => Way::Tls,
        };
        prop_assert_eq!(world.machine.way().0, expected, "{:?}", world.taken);
        let returns = world.taken.iter().filter(|it| matches!(it.2, Because::Answered(_)));
        let returns: Vec<u64> = returns.map(|it| it.0).collect();
        prop_assert!(returns.windows(2).all(|two| two[1] - two[0] >= 60_000), "{returns:?}");
        prop_assert!(world.taken.windows(2).all(|two| two[0].1 != two[1].1), "it alternates");
        let deadline = world.machine.poll_timeout();
        prop_assert!(deadline.is_none_or(|due| due > at(world.now)));
    }
}
