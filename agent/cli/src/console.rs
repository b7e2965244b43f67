//! `kedge console`: what this host does, on a screen that nobody types at.
//!
//! The word in its first line is for whoever stands before the host and has a phone: `OK`, `CHECK` for what
//! somebody should look at, `CALL` for what does not work, with a code to say.

use std::{thread::sleep, time::Duration};

use jiff::Timestamp;
use kedge_control::local::{AgentStatus, TunnelState, Vip};
use kedge_core::{Problem, Severity, vip::RouterState};
use kedge_host::Role;

use crate::{
    App,
    args::ConsoleArgs,
    client::Failure,
    exit::Exit,
    problem::headline,
    style::{Mark, Style, clean, long},
};

/// Draws the screen each second, or once.
///
/// # Errors
///
/// None: what cannot be asked is on the screen.
pub fn run(app: &App, args: &ConsoleArgs) -> Result<Exit, Failure> {
    let style = Style {
        ascii: true,
        ..app.view.style
    };
    loop {
        let asked = app.client(Role::Agent).get::<AgentStatus>("/v1/status");
        let asked = asked.map(|answer| answer.body);
        let drawn = screen(
            asked.as_ref().map_err(|it| &it.problem),
            Timestamp::now(),
            style,
        );
        if args.once {
            out!("{drawn}");
            return Ok(Exit::Ok);
        }
        out!("{HOME}{drawn}{REST}");
        sleep(EACH);
    }
}

/// The screen, in characters that every console has.
fn screen(asked: Result<&AgentStatus, &Problem>, now: Timestamp, style: Style) -> String {
    let mut lines = Vec::new();
    match asked {
        Ok(status) => {
            // Those of VIPs are among them.
            let problems = &status.problems;
            let name = clean(&status.role.hostname).to_uppercase();
            lines.push(first(&name, Mark::of(problems, Mark::Good), style));
            lines.push(String::new());
            lines.extend(status.vips.iter().map(|vip| of_vip(vip, style)));
            let tunnels = status.tunnels.iter().map(|tunnel| {
                let mark = match tunnel.state {
                    TunnelState::Up => Mark::Good,
                    _ => Mark::Warning,
                };
                let name = clean(&tunnel.name);
                format!(
                    "{} tunnel {name}: {}",
                    style.mark(mark),
                    clean(&tunnel.because)
                )
            });
            lines.extend(tunnels);
            if let Some(manager) = &status.manager {
                let (mark, word) = match manager.connected {
                    true => (Mark::Good, "is connected"),
                    false => (Mark::Warning, "is not connected"),
                };
                let url = clean(&manager.url);
                lines.push(format!("{} manager {url} {word}", style.mark(mark)));
            }
            if let Some(since) = &status.drained_since {
                lines.push(format!("{} drained since {since}", style.mark(Mark::Idle)));
            }
            lines.push(String::new());
            lines.extend(
                problems
                    .iter()
                    .flat_map(|problem| of_problem(problem, style)),
            );
            let up = long(status.role.uptime_seconds);
            lines.push(format!(
                "kedge {}, running for {up}",
                clean(&status.role.version)
            ));
        }
        Err(problem) => {
            lines.push(first("KEDGE", Mark::Bad, style));
            lines.push(String::new());
            lines.extend(of_problem(problem, style));
        }
    }
    lines.push(now.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    lines
        .iter()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

fn first(name: &str, mark: Mark, style: Style) -> String {
    let word = match mark {
        Mark::Good | Mark::Idle => "OK",
        Mark::Warning => "CHECK",
        Mark::Bad => "CALL",
    };
    style.bold(&format!("  {name}   {word}"))
}

fn of_vip(vip: &Vip, style: Style) -> String {
    let (mark, place) = match (vip.state, &vip.active) {
        (RouterState::Active, _) => (Mark::Good, "on this host".to_owned()),
        (RouterState::Releasing, _) => (Mark::Warning, "leaves this host".to_owned()),
        (RouterState::Backup, Some(peer)) => (Mark::Idle, format!("on {}", peer.address)),
        (RouterState::Backup | RouterState::Initialize, _) => (
            Mark::Warning,
            format!("nowhere yet: {}", clean(&vip.because)),
        ),
        (RouterState::Fault, _) => (Mark::Bad, format!("not here: {}", clean(&vip.because))),
    };
    let (name, addresses) = (clean(&vip.name), vip.addresses.join(", "));
    format!("{} {name} {addresses}: {place}", style.mark(mark))
}

/// What is wrong, with what to say on the phone: `VIP-0007` is what `kedge explain` takes as well.
fn of_problem(problem: &Problem, style: Style) -> [String; 2] {
    let mark = match problem.severity {
        Severity::Warning => Mark::Warning,
        Severity::Error => Mark::Bad,
    };
    let code = problem.code.to_string();
    let code = code.strip_prefix("KEDGE-").unwrap_or(&code);
    let what = headline(problem);
    [
        format!("{} {code}  {what}", style.mark(mark)),
        String::new(),
    ]
}

/// To the first place, with everything gone.
const HOME: &str = "\u{1b}[H\u{1b}[2J";
/// The cursor stays out of sight.
const REST: &str = "\u{1b}[?25l";
const EACH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use kedge_core::Code;

    use super::*;
    use crate::show::samples;

    fn drawn(asked: Result<&AgentStatus, &Problem>) -> String {
        screen(asked, "2026-11-20T10:00:00Z".parse().unwrap(), Style::PLAIN)
    }

    #[test]
    fn one_word_says_whether_somebody_is_to_be_called() {
        let mut status = AgentStatus {
            role: samples::role(),
            vips: vec![samples::active_vip(), samples::backup_vip()],
            ..AgentStatus::default()
        };
        for vip in &mut status.vips {
            vip.problems.clear();
        }
        insta::assert_snapshot!(drawn(Ok(&status)));
        status.problems = vec![Problem::warning(Code::VipUnhealthy, "w\u{1b}[31m")];
        assert!(drawn(Ok(&status)).starts_with("  EDGE-A   CHECK\n"));
        status.problems.push(Problem::new(Code::VipVridInUse, "e"));
        let text = drawn(Ok(&status));
        assert!(text.starts_with("  EDGE-A   CALL\n"), "{text}");
        assert!(
            text.contains("x VIP-0007  e\n") && !text.contains('\u{1b}'),
            "{text}"
        );
        // As an agent tells it: with the VIP, and with everything.
        status.vips[0].problems = vec![status.problems[1].clone()];
        let text = drawn(Ok(&status));
        assert_eq!(text.matches("VIP-0007").count(), 1, "{text}");
        let silent = Problem::new(Code::HostNotRunning, "the agent is not running");
        let text = drawn(Err(&silent));
        assert!(text.starts_with("  KEDGE   CALL\n"), "{text}");
        assert!(
            text.contains("HOST-0004  the agent is not running"),
            "{text}"
        );
    }
}
