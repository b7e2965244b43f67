//! `kedge fleet rotate-ca`: another certificate authority.

use std::io::{self, BufRead as _, IsTerminal as _};

use kedge_control::local::{AuthorityRotation, RotationRequest};
use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;

use super::show;
use crate::{
    App,
    args::RotateArgs,
    client::{Answer, Failure},
    exit::Exit,
};

/// Rotates the authority, asking first.
pub(super) fn authority(app: &App, args: &RotateArgs) -> Result<Exit, Failure> {
    let is_decided = args.yes || args.dry_run;
    if !is_decided && !io::stdin().is_terminal() {
        let problem = Problem::new(Code::SysUsage, "nobody can be asked whether it is meant").fix(
            Fix::text("say so, or only look with --dry-run").command("kedge fleet rotate-ca --yes"),
        );
        return Err(problem.into());
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
    say!("Replace it? Type yes:");
    let mut said = String::new();
    let read = io::stdin().lock().read_line(&mut said);
    if read.is_err() || said.trim() != "yes" {
        say!("Nothing was changed.");
        return Ok(Exit::Ok);
    }
    request.dry_run = false;
    show(app, &ask(&request)?, Exit::Ok)
}
