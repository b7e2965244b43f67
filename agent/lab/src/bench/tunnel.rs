//! `lab bench tunnel`: what the tunnel carries and what it costs, beside other WireGuard engines.
//!
//! Two hosts on one segment, one TUN device on each, configured by `wg`: nothing of Kedge but the
//! engine is in the way. Each run measures every implementation once, each time with new processes,
//! and each run begins with another one.

mod engine;
mod load;
mod rows;
mod site;

use self::{
    engine::Engine,
    rows::{Measured, Peer},
    site::Site,
};
use super::{BenchArgs, BenchResult};
use crate::{error::LabError, stage::Stage};

pub(super) fn run(args: &BenchArgs, stage: &Stage) -> Result<BenchResult, LabError> {
    let kedge = crate::lab::executable(args.kedge.as_deref())?;
    let engines = Engine::all(&kedge);
    stage.heading("kedge lab bench tunnel");
    let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
    stage.tell(&format!(
        "{} runs, interleaved: {}",
        args.runs(),
        names.join(", ")
    ));
    let mut measured: Vec<Measured> = engines.iter().map(|_| Measured::default()).collect();
    let mut left = Vec::new();
    for run in 0..args.runs() {
        for turn in 0..engines.len() {
            let at = (turn + run as usize) % engines.len();
            let (Some(engine), Some(measured)) = (engines.get(at), measured.get_mut(at)) else {
                continue;
            };
            let mut site = Site::start(engine, stage)?;
            let result = measured.take(&mut site);
            if let Some(directory) = &args.keep {
                site.keep(&directory.join(format!("{run}-{}", engine.name())))?;
            }
            left.extend(site.take_down());
            result?;
            stage.tell(&format!("{}: {}", engine.name(), measured.last()));
        }
    }
    let mut measured = engines.iter().zip(measured);
    let ours: Vec<_> = measured
        .by_ref()
        .take(Engine::OURS)
        .map(|(engine, measured)| Peer::new(engine, measured))
        .collect();
    let peers: Vec<_> = measured
        .map(|(engine, measured)| Peer::new(engine, measured))
        .collect();
    let rows = rows::rows(&ours, &peers);
    let command = format!("sudo kedge lab bench tunnel --runs {}", args.runs());
    let versions: Vec<String> = peers.iter().map(Peer::version).collect();
    let result = BenchResult::new(
        "tunnel",
        versions.join(", "),
        command,
        stage.seconds(),
        rows,
    );
    let mut notes = vec![
        "Both ends and the generators share the processors of this machine, over veth and a bridge: \
         nothing here says what a network card allows."
            .to_owned(),
        "Processor time is that of the threads of both daemons; what the kernel does for them in \
         its own name is in nobody's."
            .to_owned(),
        "rtt.added is what the tunnel adds to the same exchange without it.".to_owned(),
    ];
    notes.extend(left.iter().map(|left| format!("Left behind: {left}")));
    Ok(BenchResult {
        ok: result.ok && left.is_empty(),
        notes,
        ..result
    })
}
