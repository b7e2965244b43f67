//! The gateway's one loop.

use std::time::Duration;

use kedge_core::{Coded as _, Problem};
use kedge_host::{
    Role,
    layers::Live,
    link::Following,
    local::{Exposed, Socket, questions},
    notify::Notifier,
    orders::{Order, until_told},
};
use kedge_net::limits;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};
use tracing::{info, warn};

use crate::{config::GatewayFile, hub::Hub, socket::routes};

/// Runs the gateway until SIGTERM or SIGINT. SIGHUP reloads the configuration.
///
/// # Errors
///
/// It cannot start: no key, or another process serves its control socket.
pub async fn run(live: Live<GatewayFile>) -> Result<(), Problem> {
    until_told(|orders| serve(live, orders)).await
}

/// Runs the gateway until it is ordered to leave, or nobody is left to order it.
///
/// # Errors
///
/// As [`run`].
pub async fn serve(
    live: Live<GatewayFile>,
    mut orders: mpsc::Receiver<Order>,
) -> Result<(), Problem> {
    let notifier = Notifier::new();
    if let Err(err) = limits::raise_descriptors() {
        let error = &err as &dyn std::error::Error;
        warn!(error, "the number of descriptors stays low");
    }
    let socket = live.root().socket(Role::Gateway);
    let socket = Socket::bind(&socket).map_err(|error| error.problem())?;
    let mut hub = Hub::new(live)?;
    let (asks, mut asked) = questions();
    let mut metrics = Exposed::new(asks.clone());
    metrics.follow(hub.live.config().metrics).await;
    let mut serving = socket.serve(routes(asks));
    let mut desired = Following::link(hub.link.as_ref());
    notifier.ready(&hub.line());
    info!(state = hub.line(), because = "started", "gateway serves");
    let mut watchdog = interval(notifier.watchdog_period().unwrap_or(SLOW_TICK));
    let mut fast = interval(FAST_TICK);
    let mut slow = interval(SLOW_TICK);
    for ticks in [&mut watchdog, &mut fast, &mut slow] {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    // Many hosts are lost at once, and each look is at all of them.
    let (mut news, mut rests_until) = (false, Instant::now());
    let because = loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Reload) => {
                    notifier.reloading();
                    // Told in the status and logged; there is nobody to answer here.
                    let _ = hub.reload();
                    desired = Following::link(hub.link.as_ref());
                    metrics.follow(hub.live.config().metrics).await;
                    notifier.ready(&hub.line());
                }
                Some(Order::Leave(because)) => break because,
                Some(Order::Terminate) => break "SIGTERM",
                None => break "nobody is left to ask",
            },
            Some(ask) = asked.recv() => {
                if ask.answer(&mut hub) {
                    desired = Following::link(hub.link.as_ref());
                    metrics.follow(hub.live.config().metrics).await;
                }
            }
            wished = desired.next() => {
                if let Some(wished) = wished {
                    hub.apply(wished);
                }
            }
            Some((host, claim)) = hub.places.said.recv() => hub.hear_host(host, claim),
            Some(heard) = hub.places.told.recv() => hub.hear_gateway(heard),
            Some((from, bytes)) = hub.meeting.heard.recv() => hub.meet(from, &bytes),
            Some(round) = hub.checks.round() => hub.hear_hosts(round),
            event = hub.sessions.event() => {
                hub.sessions.hear(&event);
                news = true;
            }
            () = sleep_until(rests_until), if news => {
                news = false;
                let begun = Instant::now();
                hub.watch_hosts();
                rests_until = Instant::now() + begun.elapsed();
            }
            _ = fast.tick() => hub.watch_hosts(),
            _ = slow.tick() => {
                hub.tend();
                notifier.status(&hub.line());
            }
            _ = watchdog.tick() => notifier.watchdog(),
        }
    };
    info!(because, "gateway leaves");
    notifier.stopping("draining connections");
    serving.close();
    // Questions still in the queue are answered with "the gateway is leaving".
    drop(asked);
    let Hub {
        plane,
        mut keeper,
        peers,
        sessions,
        drain,
        ..
    } = hub;
    let goodbye = async {
        if sessions.leave().await {
            // What was on its way to us when they heard it is carried still.
            sleep(LAST_PACKETS).await;
        }
    };
    tokio::join!(plane.shutdown(DRAIN), goodbye);
    drain.finish().await;
    keeper.close();
    if let Some(memory) = keeper.learned() {
        peers.save(memory.clone());
    }
    peers.finish().await;
    serving.end(DRAIN).await;
    Ok(())
}

/// Members must be dead soon after their three seconds are over.
const FAST_TICK: Duration = Duration::from_millis(250);
const SLOW_TICK: Duration = Duration::from_secs(1);
/// How long open connections may go on when the gateway leaves.
const DRAIN: Duration = Duration::from_secs(2);
/// How long hosts and what is behind this gateway may take to send elsewhere.
const LAST_PACKETS: Duration = Duration::from_millis(500);
