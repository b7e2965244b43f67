//! What is wrong with the tunnel.

use std::time::Duration;

use kedge_control::local::TunnelState;
use kedge_core::{Code, Fix, Problem};
use kedge_net::clock;

use super::{Tunnel, mesh::Mesh};

impl Tunnel {
    /// What is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        let now = clock::now();
        // Without a device nobody was asked, and that is told already.
        let asked = self.keeper.device().is_some();
        let silent = self.peers.iter().filter(|(_, life)| {
            asked && life.state != TunnelState::Up && now.since(life.since_boottime) >= PATIENCE
        });
        let silent = silent.map(|(name, life)| {
            Problem::warning(
                Code::TunNoAnswer,
                format!("{name} does not answer through the tunnel"),
            )
            .object(format!("tunnels/{name}"))
            .evidence(life.because.clone())
            .consequence("this host is not reached through it")
            .fix(
                Fix::text("check that UDP to its endpoint passes, and that it runs")
                    .command(format!("kedge tunnel show {name}")),
            )
        });
        let device = self
            .keeper
            .problem()
            .into_iter()
            .chain(&self.echo_problem)
            .chain(self.tools.problem())
            .chain(self.targets.problem())
            .chain(self.keeper.clamp_problem())
            .chain(self.mesh.as_ref().and_then(Mesh::problem))
            .cloned();
        let small = self.ways.problems(self.wish.as_ref());
        let device = device.chain(self.names.problems()).chain(small);
        let device = device.chain(self.fallbacks.problems(self.wish.as_ref()));
        device.chain(silent).collect()
    }
}

/// A peer that is silent this long is a problem.
const PATIENCE: Duration = Duration::from_secs(10);
