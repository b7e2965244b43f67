//! `kedge vip timeline`: one failover stamp by stamp, of one host or of several.

mod merge;

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use kedge_control::{CLI_VERSION, Document, Kind as _, local::Timeline};
use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;

use super::{segment, show as write};
use crate::{
    App,
    args::TimelineArgs,
    client::{Answer, Failure},
    exit::Exit,
    show::own,
};

/// Shows it.
pub(super) fn show(app: &App, args: &TimelineArgs) -> Result<Exit, Failure> {
    let path = match &args.name {
        Some(name) => format!("/v1/vips/{}/timeline", segment(name)?),
        None => "/v1/timeline".to_owned(),
    };
    let here: Result<Answer<Timeline>, Failure> = app.client(Role::Agent).get(&path);
    if args.merge.is_empty() {
        return write(app, &here?, Exit::Ok);
    }
    let mut all = Vec::new();
    match here {
        Ok(answer) => all.push(answer.body),
        // The files may tell all there is: this may be no host of the group.
        Err(failure) if failure.problem.code == Code::HostNotRunning => {}
        Err(failure) => return Err(failure),
    }
    for file in &args.merge {
        all.push(read(file)?);
    }
    let merged = merge::merge(all).map_err(|why| {
        Problem::new(Code::SysUsage, why)
            .consequence("nothing is shown")
            .fix(
                Fix::text("name one timeline of each other host, of the same VIP")
                    .command("kedge vip timeline NAME -o json > HOST.json"),
            )
    })?;
    write(app, &own(&merged)?, Exit::Ok)
}

fn read(path: &Path) -> Result<Timeline, Failure> {
    let refuse = |problem: Problem| -> Failure {
        problem
            .object(path.display().to_string())
            .consequence("nothing is shown")
            .fix(
                Fix::text("write it on that host")
                    .command(format!("kedge vip timeline -o json > {}", path.display())),
            )
            .into()
    };
    let bytes = bounded(path).map_err(|error| {
        let what = format!("{} cannot be read", path.display());
        refuse(Problem::new(Code::SysUsage, what).caused_by(&error))
    })?;
    let what = || format!("{} is no timeline", path.display());
    let document: Document<Timeline> = serde_json::from_slice(&bytes)
        .map_err(|error| refuse(Problem::new(Code::SysUsage, what()).caused_by(&error)))?;
    if document.api_version != CLI_VERSION || document.kind != Timeline::KIND {
        let found = format!(
            "it is a {} of {}",
            document.kind.escape_debug(),
            document.api_version.escape_debug()
        );
        return Err(refuse(Problem::new(Code::SysUsage, what()).evidence(found)));
    }
    Ok(document.body)
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(AT_MOST + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > AT_MOST {
        return Err(io::Error::other("it is longer than a megabyte"));
    }
    Ok(bytes)
}

const AT_MOST: u64 = 1 << 20;
