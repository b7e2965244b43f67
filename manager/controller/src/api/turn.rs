//! One change of records at a time, each to its end.

use std::sync::Arc;

use super::error::ApiError;
use crate::{store::work::finish, world::World};

/// Looks at records and then writes them, when nobody else does. Whoever hangs up while it waits
/// is forgotten; from then on the work is carried through: what is written down must be known.
///
/// # Errors
///
/// What the work says, or the manager is leaving.
pub async fn in_turn<T, F>(
    world: Arc<World>,
    work: impl FnOnce(Arc<World>) -> F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ApiError>> + Send + 'static,
{
    let change = world.change().await;
    let work = work(world);
    let done = finish(async move {
        let done = work.await;
        drop(change);
        done
    });
    done.await.map_err(ApiError::unavailable)?
}
