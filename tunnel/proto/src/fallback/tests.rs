use proptest::prelude::*;

use super::*;

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Not the clock's epoch: who never heard anything heard it at some time.
fn at(millis: u64) -> Instant {
    Instant::ZERO + secs(1_000) + Duration::from_millis(millis)
}

fn new() -> Fallback {
    Fallback::new(at(0), Config::default())
}

fn outputs(machine: &mut Fallback) -> Vec<Output> {
    std::iter::from_fn(|| machine.poll_output()).collect()
}

fn give(machine: &mut Fallback, millis: u64, input: Input) -> Vec<Output> {
    machine.handle_input(at(millis), input).unwrap();
    outputs(machine)
}

/// Lets time pass, and says what is done when.
fn pass(machine: &mut Fallback, until: u64) -> Vec<(u64, Output)> {
    let mut done = Vec::new();
    while let Some(due) = machine.poll_timeout().filter(|due| *due <= at(until)) {
        machine.handle_timeout(due);
        let millis = u64::try_from(due.since(at(0)).as_millis()).unwrap();
        done.extend(outputs(machine).into_iter().map(|output| (millis, output)));
        assert!(machine.poll_timeout().is_none_or(|next| next > due));
    }
    done
}

const fn tls(silence: u64) -> Output {
    Output::Take {
        way: Way::Tls,
        because: Because::Silent(secs(silence)),
    }
}

const fn udp(because: Because) -> Output {
    let way = Way::Udp;
    Output::Take { way, because }
}

/// In a stream since 15 s.
fn fallen() -> Fallback {
    let mut machine = new();
    assert_eq!(pass(&mut machine, 5_000), [(5_000, Output::Call)]);
    assert_eq!(give(&mut machine, 5_100, Input::Called), []);
    assert_eq!(pass(&mut machine, 15_000), [(15_000, tls(15))]);
    machine
}

#[test]
fn a_stream_is_ready_when_udp_was_silent_for_fifteen_seconds_and_taken_then() {
    fallen();
}

#[test]
fn while_udp_answers_nothing_is_called() {
    let mut machine = new();
    for second in 1..100 {
        let input = Input::Answered(at(second * 1_000));
        assert_eq!(give(&mut machine, second * 1_000, input), []);
        assert_eq!(pass(&mut machine, second * 1_000 + 999), []);
    }
}

#[test]
fn an_answer_in_time_makes_the_stream_needless() {
    let mut machine = new();
    pass(&mut machine, 5_000);
    give(&mut machine, 5_100, Input::Called);
    let answered = give(&mut machine, 14_900, Input::Answered(at(14_900)));
    assert_eq!(answered, [Output::HangUp]);
    assert_eq!(pass(&mut machine, 19_000), []);
    assert_eq!(machine.way().0, Way::Udp);
}

#[test]
fn a_stream_that_comes_late_is_taken_at_once_and_one_that_cannot_be_had_is_tried_more_seldom() {
    let mut machine = new();
    let mut called = Vec::new();
    let mut now = 0;
    while now < 70_000 {
        now += 100;
        for (millis, output) in pass(&mut machine, now) {
            assert_eq!(output, Output::Call);
            called.push(millis);
            give(&mut machine, millis, Input::Broken);
        }
    }
    assert_eq!(
        called,
        [5_000, 6_000, 8_000, 12_000, 20_000, 35_000, 50_000, 65_000]
    );
    assert_eq!(pass(&mut machine, 80_000), [(80_000, Output::Call)]);
    assert_eq!(give(&mut machine, 81_000, Input::Called), [tls(81)]);
}

#[test]
fn three_answers_in_a_row_lead_back_and_the_stream_lingers() {
    let mut machine = fallen();
    // Whether it answers is asked each five seconds, and each second once it does.
    assert_eq!(pass(&mut machine, 20_000), [(20_000, Output::Ask(0))]);
    give(&mut machine, 20_500, Input::Answered(at(20_500)));
    assert_eq!(pass(&mut machine, 25_000), [(25_000, Output::Ask(1))]);
    assert_eq!(give(&mut machine, 25_010, Input::AnsweredOverUdp(1)), []);
    assert_eq!(pass(&mut machine, 26_010), [(26_010, Output::Ask(2))]);
    assert_eq!(give(&mut machine, 26_020, Input::AnsweredOverUdp(2)), []);
    assert_eq!(pass(&mut machine, 27_020), [(27_020, Output::Ask(3))]);
    let back = give(&mut machine, 27_030, Input::AnsweredOverUdp(3));
    assert_eq!(back, [udp(Because::Answered(3))]);
    give(&mut machine, 30_500, Input::Answered(at(30_500)));
    assert_eq!(pass(&mut machine, 34_000), [(32_030, Output::HangUp)]);
}

#[test]
fn a_miss_begins_the_row_anew() {
    let mut machine = fallen();
    let mut now = 19_000;
    for round in 0..5 {
        give(&mut machine, now, Input::Answered(at(now)));
        for _ in 0..2 {
            let asked = pass(&mut machine, now + 1_000);
            let Some((when, Output::Ask(number))) = asked.last() else {
                panic!("round {round}: {asked:?}");
            };
            now = *when;
            let done = give(&mut machine, now, Input::AnsweredOverUdp(*number));
            assert_eq!(done, [], "two are not three");
        }
        // The third is lost.
        let asked = pass(&mut machine, now + 6_000 - 1);
        assert!(matches!(asked[..], [(_, Output::Ask(_))]), "{asked:?}");
        now += 5_500;
    }
    assert_eq!(machine.way().0, Way::Tls);
}

#[test]
fn it_returns_once_a_minute_at_most() {
    let mut machine = fallen();
    let back = |machine: &mut Fallback, from: u64, until: u64| {
        for millis in (from..until).step_by(100) {
            let mut asked = give(machine, millis, Input::Answered(at(millis)));
            asked.extend(pass(machine, millis).into_iter().map(|(_, output)| output));
            for output in asked {
                let Output::Ask(number) = output else {
                    continue;
                };
                let done = give(machine, millis, Input::AnsweredOverUdp(number));
                if done.contains(&udp(Because::Answered(3))) || machine.way().0 == Way::Udp {
                    return Some(millis);
                }
            }
        }
        None
    };
    let first = back(&mut machine, 15_100, 40_000).unwrap();
    // It answers questions and nothing else: a firewall that lets the first packets pass.
    // The stream is still there: it goes when UDP answers more than that.
    let fell = pass(&mut machine, first + 15_000);
    assert!(fell.contains(&(first + 15_000, tls(15))), "{fell:?}");
    let second = back(&mut machine, first + 15_100, first + 200_000).unwrap();
    assert!(second >= first + 60_000, "{first} {second}");
    assert!(second <= first + 62_000, "{first} {second}");
}

#[test]
fn a_stream_that_breaks_or_is_deaf_is_left_and_taken_again() {
    let mut machine = fallen();
    let broken = give(&mut machine, 17_000, Input::Broken);
    assert_eq!(broken, [udp(Because::Broken)]);
    assert_eq!(pass(&mut machine, 18_000), [(18_000, Output::Call)]);
    let (way, because) = (Way::Tls, Because::Silent(Duration::from_millis(18_100)));
    let taken = give(&mut machine, 18_100, Input::Called);
    assert_eq!(taken, [Output::Take { way, because }]);
    // Nothing comes by it: after ten seconds it is of no use.
    let deaf = pass(&mut machine, 28_100);
    let expected = [
        (23_100, Output::Ask(0)),
        (28_100, Output::HangUp),
        (28_100, udp(Because::Deaf(secs(10)))),
    ];
    assert_eq!(deaf, expected);
    assert_eq!(pass(&mut machine, 30_200), [(30_100, Output::Call)]);
}

#[test]
fn what_was_answered_before_the_way_changed_does_not_speak_for_the_new_one() {
    let mut machine = fallen();
    give(&mut machine, 17_000, Input::Answered(at(16_990)));
    give(&mut machine, 17_100, Input::Broken);
    give(&mut machine, 17_200, Input::Answered(at(16_990)));
    assert_eq!(
        machine.silence(at(17_200)),
        Some(secs(17) + Duration::from_millis(200))
    );
}

#[test]
fn a_change_of_the_network_is_a_reason_to_try_at_once() {
    let mut machine = fallen();
    let asked = give(&mut machine, 15_300, Input::Changed);
    assert_eq!(asked, [Output::Ask(0)]);
    give(&mut machine, 15_400, Input::Broken);
    let called = give(&mut machine, 15_500, Input::Changed);
    assert_eq!(called, [Output::Call]);
}

#[test]
fn what_was_not_asked_for_is_refused_and_changes_nothing() {
    for input in [
        Input::Called,
        Input::Broken,
        Input::AnsweredOverUdp(0),
        Input::AnsweredOverUdp(7),
    ] {
        let mut machine = new();
        assert!(machine.handle_input(at(1), input).is_err(), "{input:?}");
        assert_eq!(outputs(&mut machine), []);
        assert_eq!(machine.way(), new().way());
        assert_eq!(machine.poll_timeout(), new().poll_timeout());
    }
    let mut machine = fallen();
    pass(&mut machine, 20_000);
    give(&mut machine, 20_010, Input::AnsweredOverUdp(0));
    let twice = machine.handle_input(at(20_020), Input::AnsweredOverUdp(0));
    assert_eq!(twice, Err(Reject::Unasked), "a replay is one answer");
}

/// What a network does for a while.
#[derive(Clone, Copy, Debug)]
struct Spell {
    millis: u64,
    udp: bool,
    tls: bool,
}

fn spell() -> impl Strategy<Value = Spell> {
    (1_u64..100_000, any::<bool>(), any::<bool>()).prop_map(|(millis, udp, tls)| Spell {
        millis,
        udp,
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
    fn step(&mut self, Spell { udp, tls, .. }: Spell) {
        self.now += 100;
        let now = self.now;
        if self.call.is_some_and(|at| at <= now) {
            self.call = None;
            self.stream = tls;
            let what = if tls { Input::Called } else { Input::Broken };
            self.give(what);
        }
        let carried = match self.machine.way().0 {
            Way::Udp => udp,
            Way::Tls => tls && self.stream,
        };
        if carried && now.is_multiple_of(1_000) {
            self.give(Input::Answered(at(now)));
        }
        self.machine.handle_timeout(at(now));
        self.execute(udp);
    }

    fn give(&mut self, input: Input) {
        // A question may have been given up before its answer came.
        let _ = self.machine.handle_input(at(self.now), input);
        self.execute(false);
    }

    fn execute(&mut self, udp: bool) {
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
                Output::Ask(number) if udp => self.give(Input::AnsweredOverUdp(number)),
                Output::Ask(_) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_the_network_does_it_follows_and_does_not_flap(
        spells in prop::collection::vec(spell(), 1..20),
        last_udp in any::<bool>(),
    ) {
        let mut world = World {
            machine: new(),
            now: 0,
            call: None,
            stream: false,
            taken: Vec::new(),
        };
        // At the end it stays as it is for long enough.
        let last = Spell { millis: 120_000, udp: last_udp, tls: !last_udp };
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
        let expected = if last_udp { Way::Udp } else { Way::Tls };
        prop_assert_eq!(world.machine.way().0, expected, "{:?}", world.taken);
        let returns = world.taken.iter().filter(|it| matches!(it.2, Because::Answered(_)));
        let returns: Vec<u64> = returns.map(|it| it.0).collect();
        prop_assert!(returns.windows(2).all(|two| two[1] - two[0] >= 60_000), "{returns:?}");
        prop_assert!(world.taken.windows(2).all(|two| two[0].1 != two[1].1), "it alternates");
        let deadline = world.machine.poll_timeout();
        prop_assert!(deadline.is_none_or(|due| due > at(world.now)));
    }
}
