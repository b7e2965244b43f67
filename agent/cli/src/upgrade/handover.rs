//! The agent that runs goes on as what is installed now, and its VIPs stay: the guardian has them meanwhile.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_control::local::{AgentStatus, OrderRequest, Restart, Vip};
use kedge_core::{Code, Fix, Problem, Span, vip::RouterState};
use kedge_host::{
    Role,
    bus::Bus,
    units::{self, UnitState, Verb},
};

use crate::{
    App,
    client::{Answer, Failure},
    confirm, roles,
};

/// What runs here before an upgrade.
#[derive(Debug)]
pub struct Running {
    how: How,
    gateway: bool,
    /// VIPs that this host holds.
    held: Vec<String>,
    /// Whether a guardian keeps them while the agent is replaced.
    kept: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// systemd runs the agent.
    Unit,
    /// Somebody else does: it is replaced in its process.
    InPlace,
    /// No agent runs.
    Not,
}

impl Running {
    /// Looks at what runs.
    ///
    /// # Errors
    ///
    /// An agent runs and refuses to say.
    pub fn here(app: &App) -> Result<Self, Failure> {
        let units = states(app);
        let unit = |name| {
            let state = units.iter().find(|(unit, _)| unit == name);
            state.is_some_and(|(_, it)| !matches!(it.active.as_str(), "inactive" | "failed"))
        };
        let (by_systemd, gateway) = (unit(AGENT), unit(GATEWAY));
        let status = match app.client(Role::Agent).get::<AgentStatus>("/v1/status") {
            Ok(answer) => Some(answer.body),
            Err(failure) if failure.problem.code == Code::HostNotRunning => None,
            // What cannot be understood is of another version: that is what upgrades are for.
            Err(failure) if failure.problem.code == Code::SysVersionSkew => None,
            Err(failure) => return Err(failure),
        };
        let how = match (by_systemd, &status) {
            (true, _) => How::Unit,
            (false, Some(_)) => How::InPlace,
            (false, None) => How::Not,
        };
        let held = status.iter().flat_map(|status| &status.vips);
        let held = held.filter(|vip| vip.state == RouterState::Active);
        let held: Vec<String> = held.map(|vip| vip.name.clone()).collect();
        let kept = held.is_empty() || would_keep(app);
        Ok(Self {
            how,
            gateway,
            held,
            kept,
        })
    }

    /// What a restart of it does, as sentences.
    pub fn plan(&self) -> Vec<String> {
        let mut plan = Vec::new();
        match self.how {
            How::Unit => plan.push(format!("systemd restarts {AGENT}")),
            How::InPlace => plan.push("the agent is replaced in the same process".to_owned()),
            How::Not => plan.push("no agent runs here, and none is started".to_owned()),
        }
        if !self.held.is_empty() {
            let vips = self.held.join(", ");
            plan.push(match self.kept {
                true => format!("the guardian keeps {vips} until the agent goes on"),
                false => format!("no guardian is running: {vips} is handed over to other hosts"),
            });
        }
        if self.gateway {
            plan.push(format!("systemd restarts {GATEWAY}"));
        }
        plan
    }

    /// Whether somebody has to say that VIPs may leave.
    ///
    /// # Errors
    ///
    /// They would, and nobody said so.
    pub fn may_be_replaced(&self, yes: bool) -> Result<(), Failure> {
        match self.kept || yes {
            true => Ok(()),
            false => Err(confirm::unasked("kedge upgrade …").into()),
        }
    }

    /// Whether an agent runs at all.
    pub fn is_any(&self) -> bool {
        self.how != How::Not
    }

    /// Has it go on as what is installed, unless the package did that, and waits until it is ready. Says
    /// how long that took.
    ///
    /// # Errors
    ///
    /// It does not become ready; why, in words.
    pub fn go_on(&self, app: &App, begun: Instant, by_package: bool) -> Result<Duration, String> {
        match self.how {
            How::Not => return Ok(Duration::ZERO),
            How::Unit if by_package => {}
            How::Unit => self.restart_units(app)?,
            How::InPlace => {
                let request = OrderRequest::default();
                let told: Result<Answer<Restart>, Failure> =
                    app.client(Role::Agent).post("/v1/restart", &request);
                told.map_err(|failure| words(&failure.problem))?;
            }
        }
        self.is_ready(app, begun)
    }

    fn restart_units(&self, app: &App) -> Result<(), String> {
        let bus = Bus::of(&app.root);
        let gateway = self.gateway;
        let restarted = async {
            units::reload(&bus).await?;
            units::order(&bus, AGENT, Verb::Restart).await?;
            if gateway {
                units::order(&bus, GATEWAY, Verb::Restart).await?;
            }
            Ok(())
        };
        let runtime = roles::calm_runtime().map_err(|failure| words(&failure.problem))?;
        let done: Result<(), kedge_host::bus::Unanswered> = runtime.block_on(restarted);
        done.map_err(|error| format!("systemd was not heard: {error}"))
    }

    fn is_ready(&self, app: &App, begun: Instant) -> Result<Duration, String> {
        loop {
            let why = match self.look(app, begun) {
                Seen::Ready => return Ok(begun.elapsed()),
                Seen::Failed(why) => return Err(why),
                Seen::NotYet(why) => why,
            };
            if begun.elapsed() > READY {
                return Err(format!("not within {}: {why}", Span::new(READY)));
            }
            sleep(PAUSE);
        }
    }

    fn look(&self, app: &App, begun: Instant) -> Seen {
        if self.how == How::Unit {
            let units = states(app);
            let state = units.iter().find(|(name, _)| name == AGENT);
            match state.map(|(_, state)| state) {
                Some(state) if has_failed(state) => {
                    return Seen::Failed(format!("{AGENT} {state}"));
                }
                Some(state) if !state.is_active() => {
                    return Seen::NotYet(format!("{AGENT} {state}"));
                }
                _ => {}
            }
        }
        let status = match app.client(Role::Agent).get::<AgentStatus>("/v1/status") {
            Ok(answer) => answer.body,
            Err(failure) if failure.problem.code == Code::HostNotRunning => {
                return Seen::NotYet(words(&failure.problem));
            }
            // A package may bring an agent that this command line is too old to understand: it answers.
            Err(failure) if failure.problem.code == Code::SysVersionSkew => return Seen::Ready,
            Err(failure) => return Seen::Failed(words(&failure.problem)),
        };
        if status.role.uptime_seconds >= begun.elapsed().as_secs_f64() {
            return Seen::NotYet("the agent before it still answers".to_owned());
        }
        let held = self.held.iter().find_map(|name| {
            let vip = status.vips.iter().find(|vip| vip.name == *name)?;
            (!stands(vip)).then(|| format!("{name} is {}: {}", vip.state, vip.because))
        });
        held.map_or(Seen::Ready, Seen::NotYet)
    }
}

enum Seen {
    Ready,
    NotYet(String),
    Failed(String),
}

/// Whether a VIP that was held is held here, or by somebody who is heard.
fn stands(vip: &Vip) -> bool {
    match vip.state {
        RouterState::Active => true,
        RouterState::Backup => vip.active.is_some(),
        RouterState::Initialize | RouterState::Releasing | RouterState::Fault => false,
    }
}

/// What it did was not what it should: systemd waits before it tries again, or no longer tries.
fn has_failed(state: &UnitState) -> bool {
    state.active == "failed" || state.sub.starts_with("auto-restart")
}

fn states(app: &App) -> Vec<(String, UnitState)> {
    let bus = Bus::of(&app.root);
    if !app.root.is_system() || !bus.is_there() {
        return Vec::new();
    }
    let asked = roles::calm_runtime()
        .map(|runtime| runtime.block_on(units::existing(&bus, &[AGENT, GATEWAY])));
    asked.ok().and_then(Result::ok).unwrap_or_default()
}

fn would_keep(app: &App) -> bool {
    let request = OrderRequest {
        dry_run: true,
        ..OrderRequest::default()
    };
    let told: Result<Answer<Restart>, Failure> =
        app.client(Role::Agent).post("/v1/restart", &request);
    told.is_ok_and(|answer| answer.body.keeps_vips)
}

/// A problem in one line.
fn words(problem: &Problem) -> String {
    let evidence = problem.evidence.first();
    evidence.map_or_else(
        || problem.what.clone(),
        |evidence| format!("{}: {evidence}", problem.what),
    )
}

/// Where to look for why an agent does not start.
pub fn see_the_log() -> Fix {
    Fix::text("see what the other version said").command("journalctl -u kedge-agent -b")
}

const AGENT: &str = "kedge-agent.service";
const GATEWAY: &str = "kedge-gateway.service";
/// Six times what the guardian waits before it gives the VIPs away, so nothing is lost by patience: a slow host is
/// not a broken one. An emulated guest beside a compiler was still starting after ten seconds.
const READY: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    #[test]
    fn a_vip_that_was_held_stands_here_or_where_somebody_is_heard() {
        let mut vip = samples::backup_vip();
        assert!(stands(&vip));
        vip.active = None;
        assert!(!stands(&vip));
        vip.state = RouterState::Active;
        assert!(stands(&vip));
        for state in [
            RouterState::Initialize,
            RouterState::Releasing,
            RouterState::Fault,
        ] {
            vip.state = state;
            assert!(!stands(&vip), "{state}");
        }
    }

    #[test]
    fn a_unit_that_systemd_will_try_again_has_failed_and_one_that_starts_has_not() {
        let state = |active: &str, sub: &str| UnitState {
            load: "loaded".into(),
            active: active.into(),
            sub: sub.into(),
        };
        for (active, sub, failed) in [
            ("activating", "auto-restart", true),
            ("activating", "auto-restart-queued", true),
            ("failed", "failed", true),
            ("activating", "start", false),
            ("deactivating", "stop-sigterm", false),
            ("inactive", "dead", false),
            ("active", "running", false),
        ] {
            assert_eq!(has_failed(&state(active, sub)), failed, "{active} {sub}");
        }
    }
}
