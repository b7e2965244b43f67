//! Hosts that hang up.

use std::time::Duration;

use kedge_manager_controller::Manager;
use tokio::time::timeout;

use crate::{fleet::Fleet, host::Host};

/// Whoever hangs up while it is enrolled, at whatever moment, is let in when it comes again: what
/// was written of it is known, and its use of the token counts once.
pub async fn are_let_in_when_they_come_again(fleet: &Fleet, manager: &Manager) {
    let token = fleet.token(manager, HOSTS).await;
    let mut late = 0;
    for number in 0..HOSTS {
        let host = Host::with_token(manager, &format!("hasty-{number}"), &token);
        let patience = Duration::from_millis(u64::from(number));
        late += u32::from(timeout(patience, host.client.ensure()).await.is_err());
        let again = host.client.ensure().await;
        assert!(again.is_ok(), "after {patience:?}: {again:?}");
    }
    assert!(late > 0, "nobody hung up");
    assert_eq!(fleet.uses(&token).await, HOSTS as usize);
}

/// One after each millisecond an enrolment may take.
const HOSTS: u32 = 40;
