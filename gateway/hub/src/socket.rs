//! What the control socket shows of the gateway. The loop answers: what is shown is what it decides
//! with.

use kedge_control::local::{ConfigInForce, GatewayStatus, Reloaded, TunnelList};
use kedge_core::Problem;
use kedge_host::{Role, local::Answers};

use crate::hub::Hub;

impl Answers for Hub {
    const ROLE: Role = Role::Gateway;
    type Status = GatewayStatus;

    fn status(&self) -> GatewayStatus {
        self.status()
    }

    fn tunnels(&self) -> TunnelList {
        self.tunnels()
    }

    fn config(&self) -> ConfigInForce {
        self.live.in_force()
    }

    fn reload(&mut self) -> Result<Reloaded, Problem> {
        self.reload()
    }
}
