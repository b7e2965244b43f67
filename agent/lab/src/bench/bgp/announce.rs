//! A thousand routes for two routers that both call at once.

use std::{io, net::Ipv4Addr, path::Path, time::Duration};

use kedge_control::local::BgpNeighborList;
use kedge_host::{Role, Root};
use kedge_net::{clock, netns::Namespace};

use super::{
    super::Samples,
    collector::{Collector, Taken},
    speaker::{FEEDER_AS, LIMIT, ROUTERS_AS, Speaker, Task},
};
use crate::{
    client,
    error::LabError,
    lab::{Lab, executable},
    stage::Stage,
    topology::{ROUTERS, Topology, router_address},
};

/// What was measured, in the order of [`Speaker::ALL`].
#[derive(Debug, Default)]
pub(super) struct Announced {
    pub(super) seconds: [Samples; 3],
    /// Those that never marked the end of their routes.
    pub(super) unmarked: Vec<&'static str>,
}

/// Measures every speaker `runs` times; what a lab could not remove is added to `left`.
pub(super) fn announce(
    runs: u32,
    kedge: &Path,
    keep: Option<&Path>,
    left: &mut Vec<String>,
    stage: &Stage,
) -> Result<Announced, LabError> {
    stage.heading("a thousand routes for two routers");
    let (lab, _) = Lab::build(Topology::routers(), kedge.to_owned())?;
    let mut lab = lab.with_roles_of(executable(None)?);
    let result = measure(&mut lab, runs, stage);
    if let Some(directory) = keep {
        lab.keep_logs(&directory.join("announce"))?;
    }
    left.extend(lab.take_down());
    result
}

fn measure(lab: &mut Lab, runs: u32, stage: &Stage) -> Result<Announced, LabError> {
    let task = Task {
        routes: routes(),
        routers: ROUTERS.len(),
        passive: true,
        bfd: None,
    };
    for speaker in Speaker::ALL {
        speaker.start(lab, &task, stage)?;
    }
    let gobgp = Namespace::open(&lab.namespace(Speaker::GoBgp.host()))?;
    let mut feeder = call(&gobgp, Ipv4Addr::LOCALHOST, (FEEDER_AS, FEEDER), stage)?;
    let told = feeder
        .confirm()
        .and_then(|()| feeder.tell(&task.routes, FEEDER));
    told.map_err(said(Speaker::GoBgp))?;
    stage.eventually("every VIP stands", LIMIT, || {
        if let Some(fallen) = lab.fallen() {
            return Err(fallen);
        }
        let count = offered(lab)?;
        let all = count >= task.routes.len();
        all.then_some(())
            .ok_or_else(|| format!("kedge offers {count} of them"))
    })?;
    let routers: Vec<Namespace> = ROUTERS
        .iter()
        .map(|router| Namespace::open(&lab.namespace(router)))
        .collect::<Result<_, _>>()?;
    let mut announced = Announced {
        unmarked: Speaker::ALL.map(Speaker::name).to_vec(),
        ..Announced::default()
    };
    for run in 0..=runs {
        for turn in 0..Speaker::ALL.len() {
            let at = (turn + run as usize) % Speaker::ALL.len();
            let Some(speaker) = Speaker::ALL.get(at).copied() else {
                continue;
            };
            let (seconds, is_marked) = once(speaker, &routers, task.routes.len(), stage)?;
            if is_marked {
                announced.unmarked.retain(|name| *name != speaker.name());
            }
            // What is done once, such as the first time that memory is used, is not what it takes.
            if let Some(samples) = announced.seconds.get_mut(at).filter(|_| run > 0) {
                samples.push(seconds);
                stage.tell(&format!(
                    "{run:>3}  {:<6} {:>7.2} ms",
                    speaker.name(),
                    seconds * 1e3
                ));
            }
        }
    }
    Ok(announced)
}

/// Has both routers establish their sessions with a speaker at once; in how many seconds both had
/// everything.
fn once(
    speaker: Speaker,
    routers: &[Namespace],
    count: usize,
    stage: &Stage,
) -> Result<(f64, bool), LabError> {
    let mut sessions = Vec::new();
    for (at, router) in routers.iter().enumerate() {
        let who = (ROUTERS_AS, router_address(at));
        sessions.push(call(router, speaker.address(), who, stage)?);
    }
    let begun = clock::now();
    for session in &mut sessions {
        session.confirm().map_err(said(speaker))?;
    }
    let taken: Vec<io::Result<Taken>> = std::thread::scope(|scope| {
        let all: Vec<_> = sessions
            .iter_mut()
            .map(|session| scope.spawn(move || session.take(count)))
            .collect();
        let ends = all.into_iter().map(|it| it.join());
        ends.map(|end| end.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
            .collect()
    });
    let mut over = begun;
    let mut is_marked = true;
    for taken in taken {
        let taken = taken.map_err(said(speaker))?;
        over = over.max(taken.over().unwrap_or(begun));
        is_marked &= taken.is_marked();
    }
    Ok((over.since(begun).as_secs_f64(), is_marked))
}

/// Calls until it is answered: a speaker whose session has just ended takes no call for a while.
fn call(
    from: &Namespace,
    to: Ipv4Addr,
    (asn, router_id): (u32, Ipv4Addr),
    stage: &Stage,
) -> Result<Collector, LabError> {
    stage.eventually("a speaker takes a call", LIMIT, || {
        let called = Collector::call(from, to, asn, router_id);
        called.map_err(|error| {
            std::thread::sleep(AGAIN);
            format!("{to}: {error}")
        })
    })
}

/// How many destinations Kedge tells its neighbours of.
fn offered(lab: &Lab) -> Result<usize, String> {
    let socket = Root::new(lab.root(Speaker::Kedge.host())).socket(Role::Agent);
    let list: Result<BgpNeighborList, _> = client::read(&socket, "/v1/bgp/neighbors");
    Ok(list.map_err(|error| error.to_string())?.routes.len())
}

fn routes() -> Vec<Ipv4Addr> {
    let one = |number: u32| Ipv4Addr::from_bits(FIRST.to_bits().saturating_add(number));
    (0..ROUTES).map(one).collect()
}

fn said(speaker: Speaker) -> impl Fn(io::Error) -> LabError {
    move |error| LabError::Unexpected {
        who: speaker.name().to_owned(),
        said: error.to_string(),
    }
}

const ROUTES: u32 = 1_000;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The name of who tells GoBGP of its routes.
const FEEDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
const AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_routes_are_a_thousand_addresses() {
        let all: std::collections::BTreeSet<_> = routes().into_iter().collect();
        assert_eq!(all.len(), 1_000);
        assert!(all.iter().all(|it| !it.is_multicast() && it.is_private()));
    }
}
