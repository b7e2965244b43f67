//! `kedge restart`: the agent goes on as its executable is now.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_control::local::{AgentStatus, OrderRequest, Restart, RestartOutcome};
use kedge_core::{Code, Fix, Problem, Span};
use kedge_host::Role;

use super::show;
use crate::{
    App,
    args::RestartArgs,
    client::{Answer, Failure},
    confirm,
    exit::Exit,
    show::own,
};

pub(super) fn run(app: &App, args: &RestartArgs) -> Result<Exit, Failure> {
    let client = app.client(Role::Agent);
    let ask = |dry_run| -> Result<Answer<Restart>, Failure> {
        let request = OrderRequest {
            dry_run,
            ..OrderRequest::default()
        };
        client.post("/v1/restart", &request)
    };
    if args.dry_run {
        return show(app, &ask(true)?, Exit::Ok);
    }
    let planned = ask(true)?.body;
    if !planned.keeps_vips && !args.yes {
        if !confirm::can_be_asked() {
            return Err(confirm::unasked("kedge restart").into());
        }
        for line in &planned.plan {
            say!("{line}");
        }
        if !confirm::is_meant("Restart the agent?") {
            return Ok(Exit::Ok);
        }
    }
    let begun = Instant::now();
    let mut told = ask(false)?.body;
    told.outcome = wait(app, begun)?;
    if told.outcome.is_some() {
        return show(app, &own(&told)?, Exit::Ok);
    }
    let exit = show(app, &own(&told)?, Exit::TimedOut)?;
    app.tell(&not_back(app.global.limit()));
    Ok(exit)
}

/// Waits for an agent that is younger than the order; `None` when the time has passed.
fn wait(app: &App, begun: Instant) -> Result<Option<RestartOutcome>, Failure> {
    let until = begun + app.global.limit();
    loop {
        let asked: Result<Answer<AgentStatus>, Failure> = app.client(Role::Agent).get("/v1/status");
        let took = begun.elapsed();
        match asked {
            Ok(Answer { body, .. }) if body.role.uptime_seconds < took.as_secs_f64() => {
                return Ok(Some(RestartOutcome {
                    version: body.role.version,
                    took_seconds: took.as_secs_f64(),
                }));
            }
            // It has not left yet, or is on its way.
            Ok(_) => {}
            Err(failure) if failure.problem.code == Code::HostNotRunning => {}
            Err(failure) => return Err(failure),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        sleep(left.min(PAUSE));
    }
}

fn not_back(limit: Duration) -> Problem {
    let span = Span::new(limit);
    Problem::new(Code::HostNotRunning, "the agent is not back yet")
        .evidence(format!("nobody answered within {span}"))
        .consequence("its guardian keeps the VIPs for 5 s and then hands them over")
        .fix(Fix::text("see its log for why").command("journalctl -u kedge-agent -b"))
}

const PAUSE: Duration = Duration::from_millis(20);
