//! `kedge fleet approve`: a person's word for a key.

use kedge_control::local::{ApprovalRequest, HostApproval};
use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;

use super::show;
use crate::{
    App,
    args::ApproveArgs,
    client::{Answer, Failure},
    confirm,
    exit::Exit,
};

/// Approves a host's key, asking for it where it was not given.
pub(super) fn host(app: &App, args: &ApproveArgs) -> Result<Exit, Failure> {
    let (namespace, name) = match args.name.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, args.name.as_str()),
    };
    let mut request = ApprovalRequest {
        name: name.to_owned(),
        namespace,
        key_hash: args.key.clone(),
        dry_run: args.dry_run,
    };
    let client = app.client(Role::Manager);
    let ask = |request: &ApprovalRequest| -> Result<Answer<HostApproval>, Failure> {
        client.post("/v1/fleet/approvals", request)
    };
    let answer = ask(&request)?;
    if args.dry_run || args.key.is_some() || answer.body.approved {
        return show(app, &answer, Exit::Ok);
    }
    let HostApproval {
        namespace,
        name,
        key_hash,
        ..
    } = &answer.body;
    if !confirm::can_be_asked() {
        let command = format!("kedge fleet approve {namespace}/{name} --key {key_hash}");
        let problem = Problem::new(
            Code::SysUsage,
            "nobody can be asked whether the key is meant",
        )
        .evidence(format!("{name} waits with the key {key_hash}"))
        .consequence("nothing was changed")
        .fix(
            Fix::text("compare it with what `kedge status` shows on the host, then name it")
                .command(command),
        );
        return Err(problem.into());
    }
    say!("{namespace}/{name} waits with the key");
    say!("  {key_hash}");
    say!("`kedge status` on the host shows the same, if it is the host you mean.");
    if !confirm::is_meant("Let it in?") {
        return Ok(Exit::Ok);
    }
    request.key_hash = Some(key_hash.clone());
    request.namespace = Some(namespace.clone());
    show(app, &ask(&request)?, Exit::Ok)
}
