//! Logs: native journald records under systemd, short lines on stderr elsewhere.

mod journal;

use std::{env, io, os::unix::fs::MetadataExt as _, panic};

use kedge_core::{Code, Problem};
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use self::journal::Journal;

/// What is logged when nobody asks for more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A role: every change an operator cares about.
    Role,
    /// A command: only what goes wrong; its result is its output.
    Command,
}

/// Starts logging for this process. `verbosity` is below zero for `-q` and counts `-v`.
pub fn start(kind: Kind, verbosity: i8) {
    start_with(filter(kind, verbosity, env::var(VARIABLE).ok().as_deref()));
}

/// Starts logging at a level that was named, else as for a command.
pub fn start_at(level: Option<&str>, verbosity: i8) {
    let variable = env::var(VARIABLE).ok();
    let named = [level, variable.as_deref()];
    let directives: Vec<&str> = named.into_iter().flatten().collect();
    start_with(filter(
        Kind::Command,
        verbosity,
        Some(&directives.join(",")),
    ));
}

fn start_with(filter: Targets) {
    let registry = tracing_subscriber::registry();
    if in_journal() {
        match Journal::connect() {
            Ok(journal) => {
                let _ = registry.with(journal.with_filter(filter)).try_init();
                return;
            }
            Err(error) => say!("the journal cannot be reached, logging to stderr: {error}"),
        }
    }
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(env::var_os("NO_COLOR").is_none() && io::IsTerminal::is_terminal(&io::stderr()))
        .with_target(false)
        .compact();
    let _ = registry.with(lines.with_filter(filter)).try_init();
}

/// Writes why a role ends into the journal, field by field.
pub fn role_ends(problem: &Problem) {
    let fix = problem.fix.as_ref();
    tracing::error!(
        KEDGE_CODE = %problem.code,
        object = problem.object,
        evidence = problem.evidence.join("; "),
        fix = fix.map(|fix| fix.text.as_str()),
        command = fix.and_then(|fix| fix.command.as_deref()),
        what = problem.what,
        "the role ends"
    );
}

/// A panic is a fault of ours: it is logged with its code and its place before the thread ends.
pub fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let what = panic
            .payload_as_str()
            .unwrap_or("a value that is no text")
            .to_owned();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("?").to_owned();
        if tracing::enabled!(tracing::Level::ERROR) {
            tracing::error!(
                KEDGE_CODE = %Code::SysUnexpected,
                what,
                place,
                thread,
                "a thread panicked"
            );
        } else {
            say!(
                "a thread panicked at {place}: {what} ({})",
                Code::SysUnexpected
            );
        }
    }));
}

fn filter(kind: Kind, verbosity: i8, variable: Option<&str>) -> Targets {
    let level = match (kind, verbosity) {
        (_, ..0) | (Kind::Command, 0) => "warn",
        (Kind::Role, 0) | (Kind::Command, 1) => "info",
        (Kind::Role, 1) | (Kind::Command, 2) => "debug",
        _ => "trace",
    };
    // An ordinary rekey or an expired session is an ERROR to boringtun; what matters of it is
    // told by the tunnel itself.
    let ours = format!("{level},boringtun=off,h2=info,hyper=info,rustls=info,mio=info");
    let wanted = variable.filter(|text| !text.trim().is_empty());
    let parsed = wanted.map(|text| format!("{ours},{text}").parse::<Targets>());
    match parsed {
        Some(Ok(targets)) => targets,
        Some(Err(error)) => {
            say!("{VARIABLE} is not used: {error}");
            ours.parse().unwrap_or_default()
        }
        None => ours.parse().unwrap_or_default(),
    }
}

/// Whether stderr is the journal: systemd says so by the device and inode of our own stderr, so
/// that a shell started from a service does not log there as well.
#[must_use]
pub fn in_journal() -> bool {
    let Ok(stream) = env::var("JOURNAL_STREAM") else {
        return false;
    };
    is_stream(
        &stream,
        std::fs::metadata("/proc/self/fd/2")
            .ok()
            .map(|file| (file.dev(), file.ino())),
    )
}

fn is_stream(stream: &str, stderr: Option<(u64, u64)>) -> bool {
    let named = stream
        .split_once(':')
        .and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    named.is_some() && named == stderr
}

const VARIABLE: &str = "KEDGE_LOG";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_the_flags_and_the_variable_comes_last() {
        let shown = |kind, verbosity, variable| filter(kind, verbosity, variable).to_string();
        assert!(shown(Kind::Role, 0, None).contains("info"));
        assert!(shown(Kind::Role, 1, None).contains("debug"));
        assert!(shown(Kind::Role, -1, None).contains("warn"));
        assert!(shown(Kind::Command, 0, None).contains("warn"));
        assert!(shown(Kind::Role, 0, None).contains("boringtun=off"));
        assert!(shown(Kind::Role, 0, Some("kedge_vip_speaker=trace")).contains("speaker=trace"));
        assert!(shown(Kind::Role, 0, Some("][")).contains("info"));
    }

    #[test]
    fn the_journal_is_recognised_by_its_own_stream_only() {
        assert!(is_stream("8:1234", Some((8, 1234))));
        assert!(!is_stream("8:1234", Some((8, 1235))));
        assert!(!is_stream("junk", Some((8, 1234))));
        assert!(!is_stream("8:1234", None));
    }
}
