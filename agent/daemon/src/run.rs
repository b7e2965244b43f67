//! The agent's one loop.

use std::time::Duration;

use kedge_core::{Code, Coded as _, Problem};
use kedge_host::{
    Role,
    layers::Live,
    link::Following,
    local::{Exposed, Socket, questions},
    notify::Notifier,
    orders::{Order, until_told},
};
use kedge_vip_speaker::{Settings, Speaker, VipEvent, guardian::Program};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tracing::{debug, error, info, warn};

use crate::{
    agent::Agent,
    bfd::{self, Sessions},
    config::AgentFile,
    departure::Successor,
    facts::{Facts, Observer},
    pulse::{Pulse, Watchdog},
    replace::{Ended, Executable},
    socket::routes,
};

/// Runs the agent until SIGTERM or SIGINT, then hands its VIPs over, or until it is to be replaced: then
/// its guardian keeps them, as it does when systemd sent SIGTERM to start the agent again. SIGHUP
/// reloads the configuration. Without an `executable` nobody guards it.
///
/// # Errors
///
/// It cannot start: no privilege, or another process serves its control socket.
pub async fn run(live: Live<AgentFile>, executable: Option<Executable>) -> Result<Ended, Problem> {
    until_told(|orders| serve(live, executable, orders)).await
}

/// Runs the agent until it is ordered to leave, or nobody is left to order it.
///
/// # Errors
///
/// As [`run`].
pub async fn serve(
    live: Live<AgentFile>,
    executable: Option<Executable>,
    mut orders: mpsc::Receiver<Order>,
) -> Result<Ended, Problem> {
    let notifier = Notifier::new();
    let socket = live.root().socket(Role::Agent);
    let socket = Socket::bind(&socket).map_err(|error| error.problem())?;
    let guardian = executable.as_ref().map(|executable| Program {
        executable: executable.running.clone(),
        page: live.root().run_dir().join(PAGE),
    });
    if let Some(Err(error)) = executable
        .as_ref()
        .map(|it| kedge_net::memory::read_ahead(&it.running))
    {
        let error = &error as &dyn std::error::Error;
        debug!(error, "the program is read as it runs");
    }
    let speaker = Speaker::start_guarded(Settings::default(), guardian);
    let speaker = speaker.map_err(|error| error.problem())?;
    let mut events = speaker.events();
    let observer = Observer::start();
    let mut facts = observer.subscribe();
    let first = facts.borrow_and_update().clone();
    let mut agent = Agent::new(live, speaker, Sessions::new()?, first);
    agent.executable = executable;
    let mut desired = Following::link(agent.link.as_ref());
    let mut levels = agent.bfd.levels();
    let mut found = agent.announcing.neighbors.found();
    // The neighbours began before anybody listened.
    found.mark_changed();
    let (asks, mut asked) = questions();
    let mut metrics = Exposed::new(asks.clone());
    metrics.follow(agent.live.config().metrics).await;
    let mut serving = socket.serve(routes(asks));
    info!(
        vips = agent.desired.vips.len(),
        scheduling = ?agent.speaker.scheduling(),
        because = "started",
        "agent serves"
    );
    notifier.ready(&agent.line());
    agent.on_bus.start();
    let mut watchdog = Watchdog::every(notifier.watchdog_period());
    let mut pulse = Pulse::new();
    let mut terminated = false;
    let outcome = loop {
        let (due, lingers) = (agent.path_is_due(), agent.routes_are_due());
        tokio::select! {
            // Verdicts first: a VIP may wait for one.
            biased;
            told = agent.gates.changed() => agent.judge(told),
            told = agent.tracks.changed() => agent.heed(told),
            Ok(()) = levels.changed() => {
                agent.follow_paths();
                agent.steer();
            }
            Ok(()) = found.changed() => agent.want_sessions(),
            () = due => agent.steer(),
            () = lingers => agent.settle_routes(),
            event = agent.announcing.neighbors.event() => agent.hear_neighbor(&event),
            event = agent.bfd.event() => bfd::log(&event),
            event = events.recv() => match event {
                Some(event) => agent.hear(&event),
                None => break Err(speaker_died()),
            },
            order = orders.recv() => match order {
                Some(Order::Reload) => {
                    notifier.reloading();
                    // Told in the status and logged; there is nobody to answer here.
                    let _ = agent.reload();
                    desired = Following::link(agent.link.as_ref());
                    metrics.follow(agent.live.config().metrics).await;
                    notifier.ready(&agent.line());
                }
                Some(Order::Leave(because)) => break Ok(because),
                Some(Order::Terminate) => {
                    terminated = true;
                    break Ok("SIGTERM");
                }
                None => break Ok("nobody is left to ask"),
            },
            () = watchdog.hungry() => {
                notifier.watchdog();
                continue;
            }
            manager = desired.next() => {
                if let Some(manager) = manager {
                    agent.follow(manager);
                }
            }
            wish = agent.on_bus.next() => agent.obey(wish),
            () = agent.units.changed() => agent.report(),
            () = agent.dns.settled() => {}
            () = agent.shortcuts.changed() => {}
            event = agent.power.next() => agent.heed_power(event),
            Some(event) = agent.peers.next() => {
                look(&agent.speaker).await;
                agent.meet(event);
            }
            latest = network(&mut facts) => agent.observe(latest),
            () = pulse.beat() => {
                look(&agent.speaker).await;
                agent.tend();
                if !agent.speaker.is_running() {
                    break Err(speaker_died());
                }
                notifier.status(&agent.line());
                agent.show();
                pulse.rest(agent.is_calm());
                continue;
            }
            () = pulse.lull() => {
                pulse.lulled();
                agent.settle();
                continue;
            }
            Some(ask) = asked.recv() => {
                look(&agent.speaker).await;
                if ask.answer(&mut agent) {
                    desired = Following::link(agent.link.as_ref());
                    metrics.follow(agent.live.config().metrics).await;
                }
                if agent.replaced_by.is_some() {
                    break Ok("another takes its place");
                }
            }
        }
        agent.show();
        pulse.hurry();
    };
    match &outcome {
        Ok(because) => info!(because, "agent leaves"),
        Err(problem) => error!(KEDGE_CODE = %problem.code, what = problem.what, "agent ends"),
    }
    agent.peers.say_farewell("the agent ends or is replaced");
    let successor = match agent.replaced_by.take() {
        Some(executable) => Successor::InPlace(executable),
        None if terminated => Successor::after_sigterm().await,
        None => Successor::Nobody,
    };
    let somebody_comes = successor != Successor::Nobody;
    let ended = successor.prepare(&agent, notifier).await;
    serving.close();
    // Questions still in the queue are answered with "the agent is leaving".
    drop(asked);
    leave_gracefully(agent, events, somebody_comes).await;
    serving.end(ANSWER).await;
    outcome.map(|_| ended)
}

/// Hands the VIPs over first: everything else may take its time afterwards.
async fn leave_gracefully(
    agent: Agent,
    mut events: mpsc::Receiver<VipEvent>,
    somebody_comes: bool,
) {
    let graceful = agent.graceful();
    let Agent {
        speaker,
        gates,
        tracks,
        bfd,
        mut announcing,
        tunnel,
        mut shortcuts,
        tunnel_peers,
        epochs,
        link,
        claims,
        orders,
        peers,
        dns,
        mut history,
        ..
    } = agent;
    // Routes go before the addresses they lead to.
    let mut standing = if somebody_comes {
        // Sessions end with the process, and the next one calls at once (docs/adr/0072).
        Box::leak(Box::new(announcing));
        None
    } else {
        announcing.leave("the agent ends", graceful).await;
        Some(announcing)
    };
    let lower = async {
        if let Some(announcing) = &mut standing {
            announcing.lower().await;
        }
    };
    let shutdown = timeout(
        HAND_OVER + Duration::from_secs(1),
        speaker.shutdown(HAND_OVER),
    );
    // Peers are told at the same time: the path did not fail.
    let (shutdown, (), ()) = tokio::join!(shutdown, bfd.leave(), lower);
    if shutdown.is_err() {
        warn!("the VIP thread did not say that it left");
        // Dropping it would wait for that thread; the end of the process does not.
        Box::leak(Box::new(speaker));
    } else {
        // Its last words are there once it is gone.
        drop(speaker);
    }
    while let Ok(event) = events.try_recv() {
        history.hear(&event);
    }
    drop(link);
    if !somebody_comes {
        dns.leave().await;
    }
    // The next agent finds out itself who is to answer.
    shortcuts.leave();
    if let Some(mut tunnel) = tunnel {
        if somebody_comes {
            tunnel.leave();
        } else {
            tunnel.close();
        }
        if let Some(memory) = tunnel.learned() {
            tunnel_peers.save(memory.clone());
        }
    }
    peers.closed().await;
    let save = async {
        gates.finish().await;
        tracks.finish().await;
        claims.saver.finish().await;
        tunnel_peers.finish().await;
        epochs.finish().await;
        orders.finish().await;
        history.finish().await;
    };
    if timeout(SAVE, save).await.is_err() {
        warn!("the disk is too slow to keep the last state");
    }
}

async fn network(facts: &mut watch::Receiver<Facts>) -> Facts {
    if facts.changed().await.is_ok() {
        return facts.borrow_and_update().clone();
    }
    std::future::pending().await
}

/// Has everything about the VIPs written down as it is. Where that is not done in time, what was written
/// before has to do.
async fn look(speaker: &Speaker) {
    let _ = timeout(LOOK, speaker.refresh()).await;
}

fn speaker_died() -> Problem {
    Problem::new(
        Code::SysUnexpected,
        "the thread that speaks for the VIPs has ended",
    )
    .consequence("the agent ends, so that it is started again")
}

/// What agent and guardian share, below the folder of sockets.
const PAGE: &str = "guardian.page";
/// How long answers under way may take when the agent leaves.
const ANSWER: Duration = Duration::from_millis(500);
/// How long the speaker may take to write down how its VIPs are.
const LOOK: Duration = Duration::from_millis(100);
/// How long a successor may take before the addresses go anyway.
const HAND_OVER: Duration = Duration::from_secs(3);
const SAVE: Duration = Duration::from_secs(2);
