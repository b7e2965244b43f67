//! What is wanted, brought together from configuration, manager and network, and done.

use kedge_core::Severity;
use tracing::warn;

use super::Agent;
use crate::{desired::plan, secrets::Secrets};

impl Agent {
    /// Brings what is wanted together again, and does it. What did not change is not disturbed.
    pub(crate) fn replan(&mut self, because: &str) {
        let secrets = self.secrets();
        self.bring_together(&secrets, because);
    }

    /// The same with what neighbours are configured to be, which no plan holds.
    pub(super) fn reconfigure(&mut self, because: &str) {
        let secrets = self.secrets();
        if !self.bring_together(&secrets, because) {
            self.want_bgp(&secrets);
        }
    }

    fn secrets(&self) -> Secrets {
        Secrets::read(self.live.config(), self.live.root())
    }

    /// Whether it changed.
    fn bring_together(&mut self, secrets: &Secrets, because: &str) -> bool {
        let manager = self.manager.as_deref();
        let mut desired = plan(
            self.live.config(),
            manager,
            &self.facts,
            &self.claims.at_start,
            secrets,
        );
        self.power.want(!desired.vips.is_empty());
        self.orders.mark(&mut desired);
        self.power.mark(&mut desired);
        if desired == self.desired {
            return false;
        }
        for problem in &desired.problems {
            if !self.desired.problems.contains(problem) {
                let (code, object) = (problem.code, &problem.object);
                let outcome = match problem.severity {
                    Severity::Warning => "in use nevertheless",
                    Severity::Error => "left out",
                };
                warn!(KEDGE_CODE = %code, object, what = problem.what, because, "{outcome}");
            }
        }
        let other_kinds = desired.has_other_kinds(&self.desired);
        self.desired = desired;
        // Routes go before the addresses they lead to.
        self.want_bgp(secrets);
        let specs = self.desired.vips.iter().map(|vip| vip.spec.clone());
        self.speaker.apply(specs.collect());
        let verdicts = self.gates.apply(self.desired.probes());
        self.judge(verdicts);
        let told = self.tracks.apply(self.desired.tracked());
        self.heed(told);
        if other_kinds {
            self.say_again();
        }
        self.want_tunnel();
        self.shortcuts.want(&self.desired.shortcuts);
        self.want_sessions();
        true
    }

    /// Says every verdict and every track again, to whoever was not told.
    pub(super) fn say_again(&mut self) {
        let all = self.gates.verdicts();
        self.judge(all);
        let all = self.tracks.all();
        self.heed(all);
    }

    /// Wants the BFD sessions as they are configured, before what tracks them.
    pub(super) fn want_bfd(&mut self) {
        let sessions = &self.live.config().bfd;
        let peers = sessions.iter().map(|it| (it.name.clone(), it.peer));
        self.tracks.follow(self.bfd.levels(), peers.collect());
        self.want_sessions();
    }
}
