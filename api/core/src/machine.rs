//! The shape of every protocol core.

use crate::Instant;

/// A protocol as a pure state machine: input and time in, outputs and a deadline out.
///
/// # Laws
///
/// 1. After every `handle_*` the caller drains [`poll_output`](Self::poll_output), in order.
///    Order is protocol: goodbye before release, announce after the kernel holds the address.
/// 2. An early [`handle_timeout`](Self::handle_timeout) does nothing; after a due one
///    [`poll_timeout`](Self::poll_timeout) is `None` or in the future.
/// 3. A rejected input leaves the state as it was. Malformed bytes never reach the machine.
/// 4. Time and seeds are arguments: no clock, no randomness inside.
/// 5. Effects that can fail come back as inputs.
/// 6. Nothing a peer sends can panic.
pub trait Machine {
    /// What can happen to the machine.
    type Input;
    /// What the shell must do, in order.
    type Output;
    /// Why an input was refused; also the label of its counter.
    type Reject;

    /// Takes one input.
    ///
    /// # Errors
    ///
    /// The input was refused; the state is as before.
    fn handle_input(&mut self, now: Instant, input: Self::Input) -> Result<(), Self::Reject>;

    /// Acts on every deadline that is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// The next thing to do, until `None`.
    fn poll_output(&mut self) -> Option<Self::Output>;

    /// When [`handle_timeout`](Self::handle_timeout) must be called next.
    fn poll_timeout(&self) -> Option<Instant>;
}
