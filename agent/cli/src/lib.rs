//! The `kedge` command line and executable.
//!
//! One process, one of three lives: a role that runs until it is told to leave ([`roles`]), a
//! command that asks a running role over its control socket ([`ask`]), or one that needs nobody
//! ([`configuration`], [`migrate`], [`explain`],
//! [`k8s`], [`meta`]). Data goes to stdout, everything else to stderr, and
//! every failure ends in a [`Problem`] and an [`Exit`].

#[macro_use]
pub mod output;

pub mod args;
pub mod ask;
pub mod client;
pub mod configuration;
#[cfg_attr(
    not(feature = "manager"),
    allow(dead_code, reason = "a build without a manager")
)]
mod confirm;
mod console;
mod doctor;
#[cfg(not(feature = "manager"))]
mod edge;
pub mod exit;
pub mod explain;
pub mod files;
#[cfg(feature = "manager")]
pub mod k8s;
pub mod logs;
#[cfg(feature = "manager")]
mod manager;
pub mod manager_file;
pub mod meta;
pub mod migrate;
pub mod problem;
pub mod roles;
mod scan;
pub mod show;
mod start;
pub mod style;
pub mod table;
mod upgrade;
mod usage;
mod wg;

use std::{io, process::ExitCode};

use clap::{CommandFactory as _, Parser as _};
use jiff::Timestamp;
use kedge_control::Document;
use kedge_core::Problem;
use kedge_host::{Role, Root, layers::ConfigError};
use schemars::Schema;

use crate::{
    args::{Cli, Command, Format, K8sCommand},
    client::{Client, Failure},
    exit::Exit,
    show::View,
    style::{ColorChoice, Style},
};

/// What every command needs to know of how it was called.
#[derive(Clone, Debug)]
pub struct App {
    /// Where Kedge's folders are.
    pub root: Root,
    /// How to write results.
    pub format: Format,
    /// How results look.
    pub view: View,
    /// How what goes to stderr looks.
    pub errors: Style,
    /// Whether to keep quiet about what is not a result.
    pub quiet: bool,
    global: args::Global,
}

/// Runs `kedge`: reads the command line, does it and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    // The agent's own business, and small: nothing else of a command line is needed for it.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "guardian")
    {
        return guardian();
    }
    let cli = match Cli::try_parse_from(wg::by_name(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            return usage::tell(&error, std::env::args_os().skip(1)).into();
        }
    };
    let kind = match cli.command {
        Command::Agent(_) | Command::Manager(_) | Command::K8s(K8sCommand::Run(_)) => {
            logs::Kind::Role
        }
        Command::Gateway(ref args) if args.order.is_none() => logs::Kind::Role,
        _ => logs::Kind::Command,
    };
    let verbosity = i8::try_from(cli.global.verbose).unwrap_or(i8::MAX);
    let verbosity = if cli.global.quiet { -1 } else { verbosity };
    match &cli.command {
        Command::Wg(_) => logs::start_at(wg::log_level(), verbosity),
        _ => logs::start(kind, verbosity),
    }
    logs::log_panics();
    // One provider, chosen once; whoever was first is the same one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let app = App::new(cli.global);
    match dispatch(&app, cli.command) {
        Ok(code) => code,
        Err(failure) => {
            if kind == logs::Kind::Role && logs::in_journal() {
                logs::role_ends(&failure.problem);
            } else {
                app.tell(&failure.problem);
            }
            failure.exit.into()
        }
    }
}

/// Stands by beside the agent that started this process.
fn guardian() -> ExitCode {
    logs::start(logs::Kind::Role, 0);
    logs::log_panics();
    match roles::guardian() {
        Ok(()) => Exit::Ok.into(),
        Err(problem) => {
            logs::role_ends(&problem);
            Exit::Failure.into()
        }
    }
}

/// The command line as a value, for man pages and the reference.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// The JSON Schema of each role's file.
#[must_use]
pub fn schemas() -> Vec<(Role, Schema)> {
    Role::ALL
        .into_iter()
        .map(|role| (role, files::schema(role)))
        .collect()
}

fn dispatch(app: &App, command: Command) -> Result<ExitCode, Failure> {
    let exit = match command {
        Command::Agent(args) => roles::agent(app, &args)?,
        #[cfg(feature = "manager")]
        Command::Manager(args) => manager::run(app, &args)?,
        #[cfg(feature = "manager")]
        Command::K8s(command) => k8s::run(app, &command)?,
        #[cfg(not(feature = "manager"))]
        Command::Manager(_) | Command::K8s(_) => return Err(edge::without_manager()),
        Command::Gateway(args) => match &args.order {
            None => roles::gateway(app, &args.role)?,
            Some(order) => ask::gateway(app, order)?,
        },
        Command::Up(args) => start::up(app, &args)?,
        Command::Init(args) => start::init(app, &args)?,
        Command::Console(args) => console::run(app, &args)?,
        Command::Doctor => doctor::run(app)?,
        Command::Status(args) => ask::status(app, args.role.map(Role::from))?,
        Command::Vip(command) => ask::vip(app, &command)?,
        Command::Drain(args) => ask::drain(app, &args)?,
        Command::Undrain(args) => ask::undrain(app, &args)?,
        Command::Restart(args) => ask::restart(app, &args)?,
        Command::Upgrade(args) => upgrade::run(app, &args)?,
        Command::Bfd(command) => ask::bfd(app, command)?,
        Command::Bgp(command) => ask::bgp(app, &command)?,
        Command::Tunnel(command) => ask::tunnel(app, &command)?,
        Command::Net(command) => ask::net::run(app, &command)?,
        Command::Wg(args) => return wg::run(&args),
        Command::Fleet(command) => ask::fleet(app, &command)?,
        Command::Lb(command) => ask::lb::run(app, &command)?,
        Command::Token(command) => ask::token(app, &command)?,
        Command::Config(command) => configuration::run(app, &command)?,
        Command::Migrate(command) => migrate::run(app, &command)?,
        Command::Explain(args) => {
            let style = app.view.style;
            print(&explain::explain(args.code.as_deref(), app.format, style)?)
        }
        Command::Version => print(&meta::version(app.format)?),
        Command::Completions { shell } => print(&meta::completions(shell, &self::command())),
        Command::Man { dir } => print(&meta::man(&dir, self::command())?),
        #[cfg(feature = "lab")]
        Command::Lab(command) => {
            return Ok(kedge_agent_lab::run(command, app.lab_output())?.into());
        }
        #[cfg(feature = "lab")]
        Command::LabRole(role) => {
            kedge_agent_lab::roles::run(role)?;
            Exit::Ok
        }
    };
    Ok(exit.into())
}

fn print(text: &str) -> Exit {
    out!("{text}");
    Exit::Ok
}

impl App {
    fn new(global: args::Global) -> Self {
        let choice = if global.no_color {
            ColorChoice::Never
        } else {
            global.color
        };
        let style = Style::detect(choice, global.ascii);
        let terminal = io::IsTerminal::is_terminal(&io::stderr());
        Self {
            root: Root::new(&global.root),
            format: global.output,
            view: View {
                style,
                wide: global.output == Format::Wide,
                now: Timestamp::now(),
            },
            errors: Style {
                color: style.color && (terminal || choice == ColorChoice::Always),
                ..style
            },
            quiet: global.quiet,
            global,
        }
    }

    /// The socket of a role, or the one that was named.
    #[must_use]
    pub fn client(&self, role: Role) -> Client {
        match &self.global.socket {
            Some(path) => Client::of_path(path, self.global.limit()),
            None => Client::of_role(&self.root, role, self.global.limit()),
        }
    }

    /// Tells a problem: as data to whoever asked for data, else to stderr.
    pub fn tell(&self, problem: &Problem) {
        let document = match self.format {
            Format::Json | Format::Yaml | Format::Jsonl => {
                serde_json::to_value(Document::new(problem.clone())).ok()
            }
            Format::Table | Format::Wide | Format::Name => None,
        };
        match document.and_then(|document| show::data(&document, self.format).ok()) {
            Some(text) => out!("{text}"),
            None => say!("{}", problem::render(problem, self.errors)),
        }
    }

    /// Tells all but the last problem of a configuration; the last one ends the command.
    #[must_use]
    pub fn refused(&self, error: ConfigError) -> Failure {
        let last = kedge_core::Coded::problem(&error);
        let mut problems = error.into_problems();
        let last = problems.pop().unwrap_or(last);
        for problem in &problems {
            self.tell(problem);
        }
        last.into()
    }

    #[cfg(feature = "lab")]
    const fn lab_output(&self) -> kedge_agent_lab::Output {
        match self.format {
            Format::Json | Format::Jsonl => kedge_agent_lab::Output::Json,
            Format::Yaml => kedge_agent_lab::Output::Yaml,
            Format::Table | Format::Wide | Format::Name => kedge_agent_lab::Output::Table,
        }
    }
}
