//! `kedge migrate`: another tool's configuration as the agent's, and what has no equivalent.
//!
//! Reading, translating and checking are apart: `keepalived` and `kube_vip` turn files into drafts
//! and tell a report, and `draft::assemble` makes the agent's own file of them, with the agent's
//! own check. `wg_quick` makes a tunnel and no VIP.

mod args;
mod draft;
mod keepalived;
mod kube_vip;
mod later;
mod report;
mod report_text;
mod source;
mod wg_quick;

use std::{fs::OpenOptions, io::Write as _, path::Path};

use kedge_agent_daemon::AgentFile;
use kedge_core::{Code, Fix, Problem};
use kedge_host::identity;
use serde_json::{Value, json};

pub use self::args::{KeepalivedArgs, MigrateArgs, MigrateCommand};
use self::report::Report;
use crate::{App, args::Format, client::Failure, exit::Exit, show, style};

/// Carries out a command.
///
/// # Errors
///
/// The file cannot be read or understood, or the result cannot be written.
pub fn run(app: &App, command: &MigrateCommand) -> Result<Exit, Failure> {
    let mut report = Report::default();
    let (args, from, file) = match command {
        MigrateCommand::Keepalived(args) => {
            let own = || {
                let name = identity::hostname(&app.root);
                name.split('.').next().unwrap_or_default().to_owned()
            };
            let config_id = args.config_id.clone().unwrap_or_else(own);
            let drafts = keepalived::read(&args.migrate.file, &config_id, &mut report)?;
            let file = draft::assemble(drafts, &mut report)?;
            (&args.migrate, "keepalived", file)
        }
        MigrateCommand::KubeVip(args) => {
            let drafts = kube_vip::read(&args.file, &mut report)?;
            (args, "kube-vip", draft::assemble(drafts, &mut report)?)
        }
        MigrateCommand::WgQuick(args) => {
            (args, "wg-quick", wg_quick::read(&args.file, &mut report)?)
        }
    };
    report.items.sort_by(|a, b| a.place.cmp(&b.place));
    let text = yaml(&file, from)?;
    if let Some(path) = &args.write {
        write(path, &text, args.force)?;
    }
    tell(app, args, from, (&file, &text), &report)?;
    Ok(if args.strict && !report.is_complete() {
        Exit::Degraded
    } else {
        Exit::Ok
    })
}

fn tell(
    app: &App,
    args: &MigrateArgs,
    from: &str,
    (file, text): (&AgentFile, &str),
    report: &Report,
) -> Result<(), Failure> {
    match app.format {
        Format::Table | Format::Wide => {
            if args.write.is_none() {
                out!("{text}");
            }
            let mut told = report_text::text(report, app.quiet, app.errors);
            if let Some(path) = &args.write {
                told.push_str(
                    &app.view
                        .next(&[format!("kedge config check {}", path.display())]),
                );
            }
            say!("{told}");
        }
        Format::Name => {
            let vips = file.vips.iter().flatten().map(|(name, _)| name);
            let peers = file
                .tunnel
                .iter()
                .filter_map(|tunnel| tunnel.peers.as_ref());
            for name in vips.chain(peers.flat_map(|peers| peers.keys())) {
                out!("{}\n", style::clean(name.as_str()));
            }
        }
        format => out!("{}", show::data(&document(file, from, report)?, format)?),
    }
    Ok(())
}

fn document(file: &AgentFile, from: &str, report: &Report) -> Result<Value, Failure> {
    let value =
        |made: serde_json::Result<Value>| made.map_err(|error| Failure::from(unwritten(&error)));
    Ok(json!({
        "apiVersion": kedge_control::CLI_VERSION,
        "kind": "Migration",
        "from": from,
        "config": value(serde_json::to_value(file))?,
        "items": value(serde_json::to_value(&report.items))?,
        "steps": report.steps,
    }))
}

/// The file as the agent reads it.
fn yaml(file: &AgentFile, from: &str) -> Result<String, Failure> {
    let values = serde_saphyr::to_string(file).map_err(|error| Failure::from(unwritten(&error)))?;
    let text = format!(
        "# yaml-language-server: $schema=/usr/share/kedge/schema/agent.json\n\
         # Made by `kedge migrate {from}`; what has no equivalent stands in its report.\n{values}"
    );
    // What was checked is the value; what people get is the text.
    let read: AgentFile =
        serde_saphyr::from_str(&text).map_err(|error| Failure::from(unwritten(&error)))?;
    match read.checked() {
        Ok(_) => Ok(text),
        Err(problems) => {
            let unexpected =
                || Problem::new(Code::SysUnexpected, "the configuration does not hold");
            Err(problems
                .into_iter()
                .next()
                .unwrap_or_else(unexpected)
                .into())
        }
    }
}

fn unwritten(error: &dyn std::error::Error) -> Problem {
    Problem::new(Code::SysUnexpected, "the configuration cannot be written").caused_by(error)
}

/// Writes the file, which must not be there unless `force` says otherwise.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let shown = path.display();
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let problem = Problem::new(Code::SysUsage, format!("{shown} is there already"))
                .consequence("nothing was written")
                .fix(Fix::text(
                    "choose another file, or say --force to overwrite it",
                ));
            Failure {
                problem,
                exit: Exit::Refused,
            }
        } else {
            Problem::new(Code::SysUnexpected, format!("{shown} cannot be written"))
                .caused_by(&error)
                .consequence("nothing was migrated")
                .fix(Fix::text(
                    "choose a folder that is there and may be written",
                ))
                .into()
        }
    })
}

#[cfg(test)]
mod tests;
