//! `kedge vip wait`: the gate before something that needs a VIP to answer.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_control::local::{Vip, VipList};
use kedge_core::{Code, Fix, Problem, Span, vip::RouterState};
use kedge_host::Role;

use crate::{
    App,
    client::{Answer, Failure},
    exit::Exit,
};

/// Waits for every VIP of this host, or for one. A host that has none yet has not heard from its
/// manager: it is waited for too.
pub(super) fn vips(app: &App, name: Option<&str>) -> Result<Exit, Failure> {
    let limit = app.global.limit();
    let begun = Instant::now();
    loop {
        let asked: Result<Answer<VipList>, Failure> = app.client(Role::Agent).get("/v1/vips");
        let why = match asked {
            Ok(answer) => match missing(&answer.body.items, name) {
                None => {
                    if !app.quiet {
                        say!("{}", summary(&answer.body.items, name));
                    }
                    return Ok(Exit::Ok);
                }
                Some(why) => why,
            },
            // It may be starting.
            Err(failure) if failure.problem.code == Code::HostNotRunning => failure.problem.what,
            Err(failure) => return Err(failure),
        };
        let Some(left) = limit.checked_sub(begun.elapsed()) else {
            return Err(too_late(limit, why));
        };
        sleep(left.min(PAUSE));
    }
}

/// What there is still to wait for.
fn missing(all: &[Vip], name: Option<&str>) -> Option<String> {
    let wanted: Vec<&Vip> = wanted(all, name).collect();
    if wanted.is_empty() {
        return Some(match name {
            Some(name) => format!("this host has no VIP `{}`", name.escape_debug()),
            None => "this host has no VIP yet".to_owned(),
        });
    }
    let late = wanted.into_iter().find(|vip| !stands(vip.state))?;
    Some(format!("{} is {}: {}", late.name, late.state, late.because))
}

fn wanted<'a>(all: &'a [Vip], name: Option<&'a str>) -> impl Iterator<Item = &'a Vip> {
    all.iter()
        .filter(move |vip| name.is_none_or(|name| vip.name == name))
}

/// Whether the host has the address, or takes it when its holder falls silent.
const fn stands(state: RouterState) -> bool {
    matches!(state, RouterState::Active | RouterState::Backup)
}

fn summary(all: &[Vip], name: Option<&str>) -> String {
    let each = wanted(all, name).map(|vip| format!("{} is {}", vip.name, vip.state));
    each.collect::<Vec<_>>().join(", ")
}

fn too_late(limit: Duration, why: String) -> Failure {
    let limit = Span::new(limit);
    let problem = Problem::new(
        Code::HostNotRunning,
        format!("the VIPs of this host were not there within {limit}"),
    )
    .evidence(why)
    .consequence("what waits for them should not start")
    .fix(Fix::text("see what the agent waits for").command("kedge status"));
    Failure {
        problem,
        exit: Exit::TimedOut,
    }
}

const PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    #[test]
    fn a_host_waits_for_its_first_vip_and_for_each_to_stand() {
        let mut vip = samples::backup_vip();
        assert!(missing(&[], None).is_some(), "nothing from the manager yet");
        for (state, stands) in [
            (RouterState::Initialize, false),
            (RouterState::Backup, true),
            (RouterState::Active, true),
            (RouterState::Releasing, false),
            (RouterState::Fault, false),
        ] {
            vip.state = state;
            let all = [vip.clone()];
            assert_eq!(missing(&all, None).is_none(), stands, "{state}");
            assert_eq!(missing(&all, Some(&vip.name)).is_none(), stands, "{state}");
            assert!(missing(&all, Some("other")).is_some());
        }
    }
}
