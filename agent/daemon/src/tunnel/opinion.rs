//! What can be said of a peer.

use std::time::Duration;

use kedge_control::local::TunnelState;
use kedge_core::Instant;
use kedge_tunnel_device::{PeerStats, echo::Report};

use crate::desired::Peer;

/// By its echo where it is asked, else by the age of its data.
pub(super) fn opinion(
    peer: &Peer,
    stats: Option<&PeerStats>,
    report: Option<&Report>,
    now: Instant,
) -> (TunnelState, String) {
    let Some(stats) = stats else {
        let because = "the tunnel device is not open".to_owned();
        return (TunnelState::Connecting, because);
    };
    let place = stats
        .endpoint
        .map(|at| format!(" from {at}"))
        .unwrap_or_default();
    if peer.echo.is_some() {
        let misses = report.map_or(0, |report| report.misses);
        return match report.and_then(|report| report.up.map(|up| (up, report))) {
            Some((true, report)) => {
                let took = report
                    .rtt
                    .map(|rtt| format!(" in {:.1} ms", rtt.as_secs_f64() * 1_000.0))
                    .unwrap_or_default();
                (
                    TunnelState::Up,
                    format!("the echo through the tunnel is answered{took}"),
                )
            }
            Some((false, report)) if report.answered > 0 => (
                TunnelState::Down,
                format!("{misses} probes in a row are unanswered{place}"),
            ),
            _ => (
                TunnelState::Connecting,
                format!("no probe was answered yet{place}"),
            ),
        };
    }
    let bound = peer
        .keepalive
        .map_or(IDLE, |keepalive| keepalive * 2 + Duration::from_secs(10));
    match stats.last_authenticated_data.map(|at| now.since(at)) {
        Some(age) if age < bound => (TunnelState::Up, "authenticated data arrives".to_owned()),
        Some(_) => {
            let because = format!("no authenticated data for {} s", bound.as_secs());
            (TunnelState::Down, because)
        }
        None => (
            TunnelState::Connecting,
            format!("no authenticated data yet{place}"),
        ),
    }
}

/// Without keepalives a session that is older than this has ended (REJECT_AFTER_TIME).
const IDLE: Duration = Duration::from_secs(180);
