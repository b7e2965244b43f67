//! `kedge up`: a VIP on this host, with one command.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use kedge_control::local::{Reloaded, Vip};
use kedge_core::{Code, Fix, Problem, Span, vip::RouterState};
use kedge_host::{Role, bus::Bus, layers::Override, units};
use serde_json::json;

use super::{site::Site, write};
use crate::{
    App,
    args::{RoleArgs, UpArgs},
    client::Failure,
    exit::Exit,
    roles,
};

/// Runs an agent with this VIP until Ctrl-C; with `--persist`, keeps it and has the system run the agent.
///
/// # Errors
///
/// The VIP contradicts itself, an agent runs already, or the system cannot run it.
pub fn up(app: &App, args: &UpArgs) -> Result<Exit, Failure> {
    let site = Site::of_vip(&args.site)?;
    let runs = app.client(Role::Agent).get_raw("/v1/status").is_ok();
    let path = drop_in(app);
    if args.dry_run {
        out!("{}", site.text);
        say!("{}", plan(app, args, runs));
        return Ok(Exit::Ok);
    }
    let name = args.site.name.as_str();
    match (args.persist, runs) {
        (false, true) => Err(runs_already()),
        (false, false) => here(app, args),
        (true, true) => {
            write(&path, &site.text, true)?;
            app.client(Role::Agent)
                .post::<_, Reloaded>("/v1/reload", &json!({}))?;
            kept(app, &path, name)
        }
        (true, false) => {
            write(&path, &site.text, true)?;
            start(app)?;
            kept(app, &path, name)
        }
    }
}

fn plan(app: &App, args: &UpArgs, runs: bool) -> String {
    let file = drop_in(app);
    let file = file.display();
    match (args.persist, runs) {
        (false, true) => {
            "An agent runs here already: only --persist would change what it does.".to_owned()
        }
        (false, false) => {
            "An agent would run here until Ctrl-C, with this and the files below /etc/kedge."
                .to_owned()
        }
        (true, true) => {
            format!("This would be written to {file}, and the agent that runs would read it.")
        }
        (true, false) => {
            format!("This would be written to {file}, and {UNIT} enabled and started.")
        }
    }
}

/// In the foreground, above the files there are.
fn here(app: &App, args: &UpArgs) -> Result<Exit, Failure> {
    let vip = |key: &str, value: String| {
        let setting = format!("vips.{}.{key}={value}", args.site.name);
        Override::set(&setting).map_err(|why| Failure::from(Problem::new(Code::SysUsage, why)))
    };
    let addresses = args.site.vips.iter().map(|vip| format!("\"{vip}\""));
    let addresses: Vec<String> = addresses.collect();
    let mut set = vec![vip("addresses", format!("[{}]", addresses.join(",")))?];
    if let Some(health) = args.site.health {
        set.push(vip("health", health.as_str().to_owned())?);
    }
    if let Some(interface) = &args.site.interface {
        set.push(vip("interface", interface.clone())?);
    }
    let (teller, name) = (app.clone(), args.site.name.clone());
    // It ends with the process.
    let told = thread::Builder::new()
        .name("kedge-up".into())
        .spawn(move || tell(&teller, name.as_str()));
    if let Err(error) = told {
        tracing::debug!(%error, "nobody tells when the VIP stands");
    }
    roles::agent(app, &RoleArgs { set })
}

fn tell(app: &App, name: &str) {
    match stands(app, name) {
        Ok(how) => say!("{how}. Ctrl-C gives it away.\n{}", next(app, name)),
        Err(problem) => app.tell(&problem),
    }
}

fn kept(app: &App, path: &Path, name: &str) -> Result<Exit, Failure> {
    let how = stands(app, name).map_err(|problem| Failure {
        problem,
        exit: Exit::TimedOut,
    })?;
    if !app.quiet {
        say!(
            "{how}. It is kept in {0}; to take it back: rm {0} && systemctl reload kedge-agent\n{1}",
            path.display(),
            next(app, name)
        );
    }
    Ok(Exit::Ok)
}

/// Waits until it is known who holds it, and says so.
fn stands(app: &App, name: &str) -> Result<String, Problem> {
    let begun = Instant::now();
    let path = format!("/v1/vips/{name}");
    loop {
        let why = match app.client(Role::Agent).get::<Vip>(&path) {
            Ok(answer) => match held(&answer.body) {
                Ok(how) => return Ok(how),
                Err(why) => why,
            },
            // It may be starting.
            Err(failure) => failure.problem.what,
        };
        if begun.elapsed() > CLAIMED {
            let limit = Span::new(CLAIMED);
            let what = format!("nobody holds {name} after {limit}");
            let see =
                Fix::text("see what it waits for").command(format!("kedge vip explain {name}"));
            return Err(Problem::new(Code::HostNotRunning, what)
                .evidence(why)
                .fix(see));
        }
        thread::sleep(PAUSE);
    }
}

/// Who holds it, or why nobody does yet.
fn held(vip: &Vip) -> Result<String, String> {
    let addresses = vip.addresses.join(", ");
    let interface = vip.interface.as_deref().unwrap_or("no interface");
    match (vip.state, &vip.active) {
        (RouterState::Active, _) => Ok(format!("{addresses} is on this host ({interface})")),
        (RouterState::Backup, Some(peer)) => Ok(format!(
            "{addresses} is on {}, and this host stands by ({interface})",
            peer.address
        )),
        _ => Err(format!("it is {}: {}", vip.state, vip.because)),
    }
}

fn next(app: &App, name: &str) -> String {
    app.view.next(&[
        "kedge status".to_owned(),
        format!("kedge vip explain {name}"),
    ])
}

/// Has the system run the agent, now and at each boot.
fn start(app: &App) -> Result<(), Failure> {
    let bus = Bus::of(&app.root);
    let started = roles::calm_runtime()?.block_on(async {
        units::enable(&bus, UNIT).await?;
        units::order(&bus, UNIT, units::Verb::Start).await
    });
    started.map_err(|error| no_system(&error.to_string()))
}

fn no_system(why: &str) -> Failure {
    Problem::new(
        Code::HostNotRunning,
        format!("the system cannot run {UNIT}"),
    )
    .evidence(why)
    .consequence("the VIP is written down, and nobody holds it")
    .fix(Fix::text("install the unit, or run the agent by yourself").command("kedge agent"))
    .into()
}

fn runs_already() -> Failure {
    Failure {
        problem: Problem::new(Code::SysUsage, "an agent runs on this host already")
            .consequence("nothing was changed")
            .fix(
                Fix::text("have it keep the VIP, as one of its files says")
                    .command("kedge up --persist --vip …"),
            ),
        exit: Exit::Refused,
    }
}

fn drop_in(app: &App) -> PathBuf {
    app.root.drop_in_dir(Role::Agent).join("90-up.yaml")
}

const UNIT: &str = "kedge-agent.service";
/// A first claim listens and asks for three seconds.
const CLAIMED: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    #[test]
    fn it_stands_once_somebody_is_known_to_hold_it() {
        let mut vip = samples::backup_vip();
        vip.state = RouterState::Active;
        assert!(held(&vip).unwrap().contains("is on this host"));
        vip.state = RouterState::Backup;
        assert!(held(&vip).unwrap().contains("this host stands by"));
        vip.active = None;
        assert!(held(&vip).is_err(), "it still listens");
        for state in [
            RouterState::Initialize,
            RouterState::Releasing,
            RouterState::Fault,
        ] {
            vip.state = state;
            assert!(held(&vip).is_err(), "{state}");
        }
    }
}
