//! Work on a store that is carried through, whoever asked for it: a host that hangs up takes its
//! request with it, and a write that was cut off would count as under way for good.

use kedge_core::{Code, Problem};
use tokio::task::JoinHandle;

/// Carries it through.
///
/// # Errors
///
/// The runtime ends.
pub(crate) async fn finish<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    ended(tokio::spawn(work)).await
}

/// What came of it.
///
/// # Errors
///
/// The runtime ends.
pub(super) async fn ended<T>(work: JoinHandle<T>) -> Result<T, Problem> {
    work.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Problem::new(Code::SysUnexpected, "the manager is leaving").caused_by(&error),
    })
}
