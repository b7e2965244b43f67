//! Orders to the gateway that runs here.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_control::local::GatewayDrain;
use kedge_host::Role;

use super::{key, show};
use crate::{
    App,
    args::GatewayOrder,
    client::{Answer, Failure},
    exit::Exit,
    roles,
};

/// What follows `kedge gateway`.
pub(super) fn order(app: &App, order: &GatewayOrder) -> Result<Exit, Failure> {
    let client = app.client(Role::Gateway);
    let args = match order {
        GatewayOrder::Drain(args) => args,
        GatewayOrder::Bootstrap(args) => return roles::bootstrap(app, args),
        GatewayOrder::RotateKey(args) => return key::rotate(app, Role::Gateway, *args),
        GatewayOrder::Undrain => {
            let answer: Answer<GatewayDrain> = client.post("/v1/undrain", &())?;
            return show(app, &answer, Exit::Ok);
        }
    };
    let mut answer: Answer<GatewayDrain> = if args.dry_run {
        client.get("/v1/drain")?
    } else {
        client.post("/v1/drain", &())?
    };
    let until = Instant::now() + app.global.limit();
    while args.wait && answer.body.draining && answer.body.waiting > 0 {
        if Instant::now() >= until {
            return show(app, &answer, Exit::TimedOut);
        }
        sleep(PAUSE);
        answer = client.get("/v1/drain")?;
    }
    show(app, &answer, Exit::Ok)
}

const PAUSE: Duration = Duration::from_millis(50);
