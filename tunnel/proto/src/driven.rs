//! Machines as tests drive them.

use std::{fmt::Debug, time::Duration};

use kedge_core::{Instant, Machine};

/// Not the clock's epoch: who never heard anything heard it at some time.
pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1_000) + Duration::from_millis(millis)
}

/// What it wants done by now.
pub(crate) fn outputs<M: Machine>(machine: &mut M) -> Vec<M::Output> {
    std::iter::from_fn(|| machine.poll_output()).collect()
}

/// Gives it something, and says what is done.
pub(crate) fn give<M: Machine<Reject: Debug>>(
    machine: &mut M,
    millis: u64,
    input: M::Input,
) -> Vec<M::Output> {
    machine.handle_input(at(millis), input).unwrap();
    outputs(machine)
}

/// Lets time pass, and says what is done when.
pub(crate) fn pass<M: Machine>(machine: &mut M, until: u64) -> Vec<(u64, M::Output)> {
    let mut done = Vec::new();
    while let Some(due) = machine.poll_timeout().filter(|due| *due <= at(until)) {
        machine.handle_timeout(due);
        let millis = u64::try_from(due.since(at(0)).as_millis()).unwrap();
        done.extend(outputs(machine).into_iter().map(|output| (millis, output)));
        assert!(machine.poll_timeout().is_none_or(|next| next > due));
    }
    done
}
