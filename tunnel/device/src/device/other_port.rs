//! The other port of a device.

use kedge_core::{Code, Fix, Problem};
use kedge_net::udp::Group;
use tracing::warn;

use crate::config::DeviceConfig;

/// The sockets of the other port. The tunnel works without them.
pub(super) fn open(config: &DeviceConfig) -> (Option<Group>, Option<Problem>) {
    let Some(port) = config.other_port else {
        return (None, None);
    };
    match Group::bind(port, config.workers.count) {
        Ok(group) => (Some(group), None),
        Err(error) => {
            let problem = Problem::warning(
                Code::TunPortInUse,
                format!("the tunnel's other UDP port {port} cannot be had"),
            )
            .object("tunnel.other_port")
            .caused_by(&error)
            .consequence("hosts whose UDP passes to that port alone do not reach this end by it")
            .fix(
                Fix::text("see who has it, free it, and restart this role")
                    .command(format!("sudo ss -ulpn sport = :{port}")),
            );
            warn!(KEDGE_CODE = %problem.code, what = problem.what, "tunnel, without its other port");
            (None, Some(problem))
        }
    }
}
