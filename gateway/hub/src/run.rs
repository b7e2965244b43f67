//! The gateway's one loop.

use std::time::Duration;

use kedge_core::{Coded as _, Problem};
use kedge_host::{
    Role, Root,
    layers::{Loaded, Override},
    link::Following,
    local::Socket,
    notify::Notifier,
    orders::{Order, until_told},
};
use kedge_net::limits;
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use crate::{
    config::GatewayFile,
    hub::Hub,
    socket::{Ask, routes},
};

/// Runs the gateway until SIGTERM or SIGINT. SIGHUP reloads the configuration, read with the same
/// `overrides` as the first time.
///
/// # Errors
///
/// It cannot start: no key, or another process serves its control socket.
pub async fn run(
    loaded: Loaded<GatewayFile>,
    root: Root,
    overrides: Vec<Override>,
) -> Result<(), Problem> {
    until_told(|orders| serve(loaded, root, overrides, orders)).await
}

/// Runs the gateway until it is ordered to leave, or nobody is left to order it.
///
/// # Errors
///
/// As [`run`].
pub async fn serve(
    loaded: Loaded<GatewayFile>,
    root: Root,
    overrides: Vec<Override>,
    mut orders: mpsc::Receiver<Order>,
) -> Result<(), Problem> {
    let notifier = Notifier::new();
    if let Err(err) = limits::raise_descriptors() {
        let error = &err as &dyn std::error::Error;
        warn!(error, "the number of descriptors stays low");
    }
    let socket = Socket::bind(&root.socket(Role::Gateway)).map_err(|error| error.problem())?;
    let mut hub = Hub::new(loaded, root, overrides)?;
    let (asks, mut asked) = mpsc::channel(ASKS);
    let (leave, left) = oneshot::channel::<()>();
    let server = tokio::spawn(socket.serve(routes(asks), async {
        let _ = left.await;
    }));
    let mut desired = Following::link(hub.link.as_ref());
    if let Some(wished) = desired.known() {
        hub.apply(&wished);
    }
    notifier.ready(&hub.line());
    let mut watchdog = interval(notifier.watchdog_period().unwrap_or(SLOW_TICK));
    let mut fast = interval(FAST_TICK);
    let mut slow = interval(SLOW_TICK);
    for ticks in [&mut watchdog, &mut fast, &mut slow] {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let because = loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Reload) => {
                    notifier.reloading();
                    // Told in the status and logged; there is nobody to answer here.
                    let _ = hub.reload();
                    desired = Following::link(hub.link.as_ref());
                    notifier.ready(&hub.line());
                }
                Some(Order::Leave(because)) => break because,
                None => break "nobody is left to ask",
            },
            Some(ask) = asked.recv() => {
                if answer(&mut hub, ask) {
                    desired = Following::link(hub.link.as_ref());
                }
            }
            wished = desired.next() => {
                if let Some(wished) = wished {
                    hub.apply(&wished);
                }
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
    drop(leave);
    let Hub {
        plane, mut keeper, ..
    } = hub;
    plane.shutdown(DRAIN).await;
    keeper.close();
    // The socket file goes with the server.
    let _ = tokio::time::timeout(DRAIN, server).await;
    Ok(())
}

/// Answers a question; whether the link may be another one.
fn answer(hub: &mut Hub, ask: Ask) -> bool {
    // Whoever asked may have left: that is theirs.
    match ask {
        Ask::Status(answer) => drop(answer.send(hub.status())),
        Ask::Tunnels(answer) => drop(answer.send(hub.tunnels())),
        Ask::Config(answer) => {
            drop(answer.send(hub.loaded.in_force(hub.config_generation)));
        }
        Ask::Reload(answer) => {
            drop(answer.send(hub.reload()));
            return true;
        }
    }
    false
}

const ASKS: usize = 16;
/// Members must be dead soon after their three seconds are over.
const FAST_TICK: Duration = Duration::from_millis(250);
const SLOW_TICK: Duration = Duration::from_secs(1);
/// How long open connections may go on when the gateway leaves.
const DRAIN: Duration = Duration::from_secs(2);
