//! What goes wrong, and when.

use std::time::Duration;

use kedge_core::{Instant, vip::Priority};
use kedge_vip_proto::vrrp::Tracked;

use crate::{random::Random, setup::Setup};

/// Something that goes wrong, or right again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The network loses this percentage of all frames.
    Loss(u64),
    /// The network damages this percentage of all frames.
    Damage(u64),
    /// The network splits: stations whose bit is set are on one side. The client is the last.
    Partition(u64),
    /// One host is no longer heard by another.
    OneWay(usize, usize),
    /// The network is whole again.
    Heal,
    /// Kernels no longer refuse addresses.
    KernelsObey,
    /// The process dies; its kernel goes on answering for a while.
    KillProcess(usize),
    /// The whole host dies.
    KillHost(usize),
    /// The process is started, if it does not run.
    Start(usize),
    /// The process is told to leave.
    Stop(usize),
    /// The process is told to give the VIP away.
    HandOver(usize),
    /// The process is told to take the VIP.
    Take(usize),
    /// The VIP is frozen on a host, or thawed.
    Freeze(usize, bool),
    /// The host is drained, or not any more.
    Drain(usize, bool),
    /// The process is not scheduled.
    Stall(usize),
    /// It is scheduled again.
    Resume(usize),
    /// The link goes down.
    LinkDown(usize),
    /// The link comes up.
    LinkUp(usize),
    /// The configuration is reloaded with another priority.
    Prioritise(usize, Priority),
    /// What is tracked fails or is back.
    Tracked(usize, Tracked),
    /// The service begins to fail.
    Ill(usize),
    /// The service answers again.
    Well(usize),
}

/// A schedule of faults, each followed by its repair; by `end` everything is repaired.
#[must_use]
pub fn plan(random: &mut Random, setup: &Setup, end: Instant) -> Vec<(Instant, Fault)> {
    let hosts = setup.configs.len();
    let adv = setup.interval.duration();
    let begin = Instant::ZERO;
    let mut plan = Vec::new();
    // Hosts boot at once or one after the other.
    let stagger = random.pick(&[Duration::ZERO, adv / 3, adv * 3]);
    for host in 0..hosts {
        let at = begin + stagger * u32::try_from(host).unwrap();
        plan.push((at, Fault::Start(host)));
        if random.chance(80) {
            plan.push((
                at + random.between(Duration::ZERO, adv * 6),
                Fault::Well(host),
            ));
        }
    }
    for _ in 0..3 + random.below(7) {
        let at = begin + random.between(adv, end.since(begin).mul_f32(0.9));
        let until = at + random.between(adv / 10, adv * 12);
        let host = random.index(hosts);
        let (fault, repair) = match random.below(18) {
            0 => (Fault::Loss(random.pick(&[5, 20, 50, 90])), Fault::Heal),
            1 => (Fault::Damage(20), Fault::Heal),
            2 | 3 => (Fault::Partition(random.bits()), Fault::Heal),
            4 => (Fault::OneWay(host, random.index(hosts)), Fault::Heal),
            5 => (Fault::KillProcess(host), Fault::Start(host)),
            6 => (Fault::KillHost(host), Fault::Start(host)),
            7 => (Fault::Stop(host), Fault::Start(host)),
            8 => (Fault::HandOver(host), Fault::HandOver(random.index(hosts))),
            9 => (Fault::Stall(host), Fault::Resume(host)),
            10 => {
                let any = |random: &mut Random| {
                    Priority::new(192 + u8::try_from(random.below(63)).unwrap()).unwrap()
                };
                (
                    Fault::Prioritise(host, any(random)),
                    Fault::Prioritise(host, any(random)),
                )
            }
            11 => (Fault::LinkDown(host), Fault::LinkUp(host)),
            12 | 13 => {
                let failed = Tracked {
                    cost: u16::try_from(random.below(80)).unwrap(),
                    critical: random.chance(50),
                };
                let tracked = |tracked| Fault::Tracked(host, tracked);
                (tracked(failed), tracked(Tracked::default()))
            }
            14 => (Fault::Freeze(host, true), Fault::Freeze(host, false)),
            15 => (Fault::Drain(host, true), Fault::Drain(host, false)),
            16 => (Fault::Take(host), Fault::Take(random.index(hosts))),
            _ => (Fault::Ill(host), Fault::Well(host)),
        };
        plan.push((at, fault));
        plan.push((until.min(end), repair));
    }
    plan.push((end, Fault::Heal));
    plan.push((end, Fault::KernelsObey));
    for host in 0..hosts {
        for repair in [
            Fault::Resume(host),
            Fault::LinkUp(host),
            Fault::Start(host),
            Fault::Well(host),
            Fault::Tracked(host, Tracked::default()),
            Fault::Freeze(host, false),
            Fault::Drain(host, false),
        ] {
            plan.push((end, repair));
        }
    }
    plan
}
