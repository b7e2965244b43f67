//! `kedge fleet rotate-ca`: another certificate authority.

use kedge_control::local::{AuthorityRotation, RotationRequest};
use kedge_host::Role;

use super::show;
use crate::{
    App,
    args::RotateArgs,
    client::{Answer, Failure},
    confirm,
    exit::Exit,
};

/// Rotates the authority, asking first.
pub(super) fn authority(app: &App, args: &RotateArgs) -> Result<Exit, Failure> {
    let is_decided = args.yes || args.dry_run;
    if !is_decided && !confirm::can_be_asked() {
        let command = format!("kedge fleet rotate-ca --overlap {}", args.overlap);
        return Err(confirm::unasked(&command).into());
    }
    let mut request = RotationRequest {
        overlap_seconds: Some(args.overlap.duration().as_secs()),
        dry_run: !args.yes || args.dry_run,
    };
    let client = app.client(Role::Manager);
    let ask = |request: &RotationRequest| -> Result<Answer<AuthorityRotation>, Failure> {
        client.post("/v1/fleet/authority", request)
    };
    let answer = ask(&request)?;
    if is_decided {
        return show(app, &answer, Exit::Ok);
    }
    say!("The authority {} is replaced.", answer.body.from);
    say!(
        "It is trusted until {}: who does not come by then enrols again.",
        answer.body.until
    );
    if !confirm::is_meant("Replace it?") {
        return Ok(Exit::Ok);
    }
    request.dry_run = false;
    show(app, &ask(&request)?, Exit::Ok)
}
