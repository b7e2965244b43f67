//! A unit of systemd, followed: systemd says what becomes of it.

use std::time::Duration;

use kedge_host::{
    bus::{Bus, Unanswered},
    units::{Followed, follow},
};
use tokio::{task::JoinHandle, time::sleep};

use super::{
    seen::Seen,
    watch::{Teller, unknown},
};

/// Watches a unit. Until systemd has answered it is as it was last within this boot, or well.
pub(super) fn watch(
    name: String,
    bus: Option<Bus>,
    before: Option<bool>,
    teller: Teller,
) -> (Seen, JoinHandle<()>) {
    let first = Seen {
        good: before.unwrap_or(true),
        because: format!("systemd is being asked about {name}"),
    };
    teller.start(first, |teller| keep_up(name, bus, teller))
}

async fn keep_up(name: String, bus: Option<Bus>, mut teller: Teller) {
    loop {
        let followed = match bus.as_ref().filter(|bus| bus.is_there()) {
            Some(bus) => follow(bus, &name).await,
            None => Err(Unanswered::NoBus),
        };
        let lost = match followed {
            Ok(unit) => match listen(&name, unit, &mut teller).await {
                Ok(()) => return,
                Err(lost) => lost,
            },
            Err(lost) => lost,
        };
        let seen = unknown("the units of this host", &lost, teller.told.good);
        if !teller.tell(seen).await {
            return;
        }
        sleep(RETRY).await;
    }
}

/// Tells what becomes of it until systemd is gone; or nobody listens, which is no error.
async fn listen(name: &str, mut unit: Followed, teller: &mut Teller) -> Result<(), Unanswered> {
    loop {
        let state = unit.state().await?;
        let because = format!("{name} {state}");
        let seen = Seen {
            good: state.is_active(),
            because,
        };
        if !teller.tell(seen).await {
            return Ok(());
        }
        unit.changed().await?;
    }
}

const RETRY: Duration = Duration::from_secs(5);
