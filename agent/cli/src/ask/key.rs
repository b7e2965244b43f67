//! `kedge tunnel rotate-key`: another key of the tunnel.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_control::local::TunnelKey;
use kedge_host::Role;

use super::show;
use crate::{
    App,
    args::RotateKeyArgs,
    client::{Answer, Failure},
    exit::Exit,
};

/// Gives the order, or asks how far it is.
pub(super) fn rotate(app: &App, role: Role, args: RotateKeyArgs) -> Result<Exit, Failure> {
    let client = app.client(role);
    let mut answer: Answer<TunnelKey> = if args.dry_run {
        client.get(KEY)?
    } else {
        client.post(KEY, &())?
    };
    let until = Instant::now() + app.global.limit();
    while args.wait && answer.body.next_public_key.is_some() && !answer.body.waiting.is_empty() {
        if Instant::now() >= until {
            return show(app, &answer, Exit::TimedOut);
        }
        sleep(PAUSE);
        answer = client.get(KEY)?;
    }
    show(app, &answer, Exit::Ok)
}

const KEY: &str = "/v1/tunnel/key";
const PAUSE: Duration = Duration::from_millis(100);
