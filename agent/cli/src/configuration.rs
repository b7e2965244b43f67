//! `kedge config`: works without a running role.

use std::path::Path;

use kedge_control::local::ConfigInForce;
use kedge_core::Problem;
use kedge_host::{
    Role,
    layers::{ConfigError, Sources},
};
use serde_json::{Value, json};

use crate::{
    App,
    args::{ConfigCommand, Format, RoleName},
    client::Failure,
    exit::Exit,
    files, problem,
    show::{self, View},
    style::clean,
};

/// Carries out a command.
///
/// # Errors
///
/// A configuration that does not hold, or nobody to ask.
pub fn run(app: &App, command: &ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Check { file, role } => check(app, file.as_deref(), *role),
        ConfigCommand::View {
            origins,
            running,
            role,
        } => view(app, (*role).into(), *origins, *running),
        ConfigCommand::Schema { role } => {
            let schema = files::schema((*role).into()).to_value();
            // A schema is JSON to every editor, whatever people like to read.
            let format = match app.format {
                Format::Yaml => Format::Yaml,
                _ => Format::Json,
            };
            out!("{}", show::data(&schema, format)?);
            Ok(Exit::Ok)
        }
        ConfigCommand::Default { role } => {
            out!("{}", files::default((*role).into()));
            Ok(Exit::Ok)
        }
    }
}

fn check(app: &App, file: Option<&Path>, role: Option<RoleName>) -> Result<Exit, Failure> {
    let role = role.map_or_else(|| role_of(file), Role::from);
    let sources = match file {
        Some(file) => existing(file).map(|()| Sources::file(file)),
        None => Sources::of(role, &app.root),
    };
    let checked = sources.and_then(|sources| files::load(role, &sources));
    let exit = if checked.is_ok() {
        Exit::Ok
    } else {
        Exit::Failure
    };
    if matches!(app.format, Format::Table | Format::Wide | Format::Name) {
        match checked {
            Ok(config) => out!("{}", holds(role, &config, &app.view)),
            Err(error) => {
                let problems = error.problems();
                say!("{}", problem::render_all(problems, app.errors));
                say!("{}", count(problems));
            }
        }
    } else {
        out!("{}", show::data(&report(role, &checked), app.format)?);
    }
    Ok(exit)
}

/// A file that is named must be there, unlike a layer.
fn existing(file: &Path) -> Result<(), ConfigError> {
    match std::fs::metadata(file) {
        Ok(_) => Ok(()),
        Err(error) => Err(ConfigError::unreadable(file, &error)),
    }
}

fn role_of(file: Option<&Path>) -> Role {
    let inside = |part: &str| {
        file.is_some_and(|file| {
            file.components().rev().take(2).any(|component| {
                component
                    .as_os_str()
                    .to_string_lossy()
                    .starts_with(&format!("{part}.yaml"))
            })
        })
    };
    Role::ALL
        .into_iter()
        .find(|role| inside(role.as_str()))
        .unwrap_or(Role::Agent)
}

fn holds(role: Role, config: &ConfigInForce, view: &View) -> String {
    let mut text = match config.files.len() {
        0 => format!("the {role}'s configuration holds: no file, defaults only\n"),
        1 => format!("the {role}'s configuration holds: 1 file\n"),
        n => format!("the {role}'s configuration holds: {n} files\n"),
    };
    for file in &config.files {
        text.push_str(&format!("  {file}\n"));
    }
    for note in notes(config) {
        text.push_str(&format!("  note: {}\n", clean(&note)));
    }
    let whose = match role {
        Role::Agent => String::new(),
        other => format!(" --role {other}"),
    };
    text + &view.next(&[format!("kedge config view --origins{whose}")])
}

/// What holds and does not do what one may think. A Backup that does not preempt follows a lower
/// priority (RFC 9568 section 6.4.2), so weights without preemption move nothing; hosts of one VIP
/// are usually configured alike.
fn notes(config: &ConfigInForce) -> Vec<String> {
    let vips = config.values.get("vips").and_then(Value::as_object);
    let idle = |(name, vip): (&String, &Value)| {
        let tracks = vip.get("track")?.as_object()?;
        let weighs = tracks.values().any(|track| track.get("weight").is_some());
        let preempts = vip.get("preempt").and_then(Value::as_bool) == Some(true);
        (weighs && !preempts).then(|| {
            format!(
                "vips.{name}.track: a weight moves the VIP only to a host that has `preempt: true`; \
                 `critical: true` needs nothing of the others"
            )
        })
    };
    vips.into_iter().flatten().filter_map(idle).collect()
}

fn count(problems: &[Problem]) -> String {
    match problems.len() {
        1 => "1 error; the configuration is not used".to_owned(),
        n => format!("{n} errors; the configuration is not used"),
    }
}

fn report(role: Role, checked: &Result<ConfigInForce, ConfigError>) -> Value {
    let (files, problems) = match checked {
        Ok(config) => (config.files.as_slice(), &[][..]),
        Err(error) => (&[][..], error.problems()),
    };
    let notes = checked.as_ref().map(notes).unwrap_or_default();
    json!({
        "apiVersion": kedge_control::CLI_VERSION,
        "kind": "ConfigCheck",
        "role": role.as_str(),
        "ok": checked.is_ok(),
        "files": files,
        "problems": problems,
        "notes": notes,
    })
}

fn view(app: &App, role: Role, origins: bool, running: bool) -> Result<Exit, Failure> {
    let answer = if running {
        app.client(role).get::<ConfigInForce>("/v1/config")?
    } else {
        let loaded = Sources::of(role, &app.root).and_then(|sources| files::load(role, &sources));
        match loaded {
            Ok(config) => show::own(&config)?,
            Err(error) => return Err(app.refused(error)),
        }
    };
    let view = View {
        wide: origins || app.view.wide,
        ..app.view
    };
    out!("{}", show::render(&answer, app.format, &view)?);
    Ok(Exit::Ok)
}
