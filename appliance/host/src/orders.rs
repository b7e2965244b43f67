//! What the outside may want of a running role, and the signals that say it.

use std::future::Future;

use kedge_core::{Code, Problem};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// What the outside may want of a running role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End in good order; the word says why.
    Leave(&'static str),
    /// SIGTERM, which a service manager sends: end in good order, for whatever it does next.
    Terminate,
    /// Read the configuration again.
    Reload,
}

/// Runs a role to its end and passes on what signals say: SIGTERM and SIGINT to leave, SIGHUP to
/// reload.
///
/// # Errors
///
/// The role's own, or signals cannot be waited for.
pub async fn until_told<F, T>(role: impl FnOnce(mpsc::Receiver<Order>) -> F) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    let wait_for = |kind| {
        signal(kind).map_err(|error| {
            Problem::new(Code::SysUnexpected, "signals cannot be waited for").caused_by(&error)
        })
    };
    let mut terminate = wait_for(SignalKind::terminate())?;
    let mut interrupt = wait_for(SignalKind::interrupt())?;
    let mut hangup = wait_for(SignalKind::hangup())?;
    let (order, orders) = mpsc::channel(ORDERS);
    let role = role(orders);
    tokio::pin!(role);
    loop {
        let next = tokio::select! {
            outcome = &mut role => return outcome,
            _ = terminate.recv() => Order::Terminate,
            _ = interrupt.recv() => Order::Leave("SIGINT"),
            _ = hangup.recv() => Order::Reload,
        };
        // A full queue holds the same wishes already.
        let _ = order.try_send(next);
    }
}

const ORDERS: usize = 4;
