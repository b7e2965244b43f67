//! The agent's one loop.

use std::time::Duration;

use kedge_core::{Code, Coded as _, Problem};
use kedge_host::{
    Role,
    layers::Live,
    link::Following,
    local::{Socket, questions},
    notify::Notifier,
    orders::{Order, until_told},
};
use kedge_vip_speaker::{Settings, Speaker};
use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::{error, info, warn};

use crate::{
    agent::Agent,
    config::AgentFile,
    facts::{Facts, Observer},
    socket::routes,
};

/// Runs the agent until SIGTERM or SIGINT, then hands its VIPs over. SIGHUP reloads the
/// configuration.
///
/// # Errors
///
/// It cannot start: no privilege, or another process serves its control socket.
pub async fn run(live: Live<AgentFile>) -> Result<(), Problem> {
    until_told(|orders| serve(live, orders)).await
}

/// Runs the agent until it is ordered to leave, or nobody is left to order it.
///
/// # Errors
///
/// As [`run`].
pub async fn serve(
    live: Live<AgentFile>,
    mut orders: mpsc::Receiver<Order>,
) -> Result<(), Problem> {
    let notifier = Notifier::new();
    let socket = live.root().socket(Role::Agent);
    let socket = Socket::bind(&socket).map_err(|error| error.problem())?;
    let speaker = Speaker::start(Settings::default()).map_err(|error| error.problem())?;
    let mut events = speaker.events();
    let observer = Observer::start();
    let mut facts = observer.subscribe();
    let first = facts.borrow_and_update().clone();
    let mut agent = Agent::new(live, speaker, first);
    let mut desired = Following::link(agent.link.as_ref());
    let (asks, mut asked) = questions();
    let mut serving = socket.serve(routes(asks));
    info!(
        vips = agent.desired.vips.len(),
        scheduling = ?agent.speaker.scheduling(),
        because = "started",
        "agent serves"
    );
    notifier.ready(&agent.line());
    let mut watchdog = interval(notifier.watchdog_period().unwrap_or(TICK));
    let mut tick = interval(TICK);
    for ticks in [&mut watchdog, &mut tick] {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let outcome = loop {
        tokio::select! {
            // Verdicts first: a VIP may wait for one.
            biased;
            told = agent.gates.changed() => agent.judge(told),
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
                    notifier.ready(&agent.line());
                }
                Some(Order::Leave(because)) => break Ok(because),
                None => break Ok("nobody is left to ask"),
            },
            _ = watchdog.tick() => notifier.watchdog(),
            manager = desired.next() => {
                if let Some(manager) = manager {
                    agent.follow(manager);
                }
            }
            latest = network(&mut facts) => agent.observe(latest),
            _ = tick.tick() => {
                agent.tend();
                if !agent.speaker.is_running() {
                    break Err(speaker_died());
                }
                notifier.status(&agent.line());
            }
            Some(ask) = asked.recv() => {
                if ask.answer(&mut agent) {
                    desired = Following::link(agent.link.as_ref());
                }
            }
        }
    };
    match &outcome {
        Ok(because) => info!(because, "agent leaves"),
        Err(problem) => error!(KEDGE_CODE = %problem.code, what = problem.what, "agent ends"),
    }
    notifier.stopping("handing over the VIPs");
    serving.close();
    // Questions still in the queue are answered with "the agent is leaving".
    drop(asked);
    leave_gracefully(agent).await;
    serving.end(ANSWER).await;
    outcome.map(drop)
}

/// Hands the VIPs over first: everything else may take its time afterwards.
async fn leave_gracefully(agent: Agent) {
    let Agent {
        speaker,
        gates,
        tunnel,
        link,
        claims,
        ..
    } = agent;
    let shutdown = timeout(
        HAND_OVER + Duration::from_secs(1),
        speaker.shutdown(HAND_OVER),
    );
    if shutdown.await.is_err() {
        warn!("the VIP thread did not say that it left");
        // Dropping it would wait for that thread; the end of the process does not.
        Box::leak(Box::new(speaker));
    }
    drop(link);
    if let Some(mut tunnel) = tunnel {
        tunnel.close();
    }
    let save = async {
        gates.finish().await;
        claims.saver.finish().await;
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

fn speaker_died() -> Problem {
    Problem::new(
        Code::SysUnexpected,
        "the thread that speaks for the VIPs has ended",
    )
    .consequence("the agent ends, so that it is started again")
}

const TICK: Duration = Duration::from_secs(1);
/// How long answers under way may take when the agent leaves.
const ANSWER: Duration = Duration::from_millis(500);
/// How long a successor may take before the addresses go anyway.
const HAND_OVER: Duration = Duration::from_secs(3);
const SAVE: Duration = Duration::from_secs(2);
