//! BFD between hosts and their gateways, as hosts tell it.

use kedge_control::local::BfdSessionList;
use kedge_core::bfd::SessionState;
use kedge_host::{Role, Root};

use crate::client;

/// Whether so many sessions of a host are up, and miss their other end within so many seconds.
///
/// # Errors
///
/// It is not so; what there is.
pub(super) fn are_up(host: &Root, many: usize, within: f64) -> Result<(), String> {
    let socket = host.socket(Role::Agent);
    let sessions: BfdSessionList =
        client::read(&socket, "/v1/bfd/sessions").map_err(|error| error.to_string())?;
    let up = sessions.items.iter().filter(|session| {
        let is_quick = |seconds: f64| seconds < within;
        session.state == SessionState::Up && session.detection_seconds.is_some_and(is_quick)
    });
    let up = up.count();
    (up == many).then_some(()).ok_or(format!("{up} are up"))
}
