//! `kedge wg`: a plain WireGuard device, called and told as wireguard-go is.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, BufRead as _, BufReader},
    os::{
        fd::{OwnedFd, RawFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use kedge_core::{Code, Coded as _, Fix, Problem};
use kedge_net::process;
use kedge_tunnel_device::{
    Workers,
    uapi::{End, Plain, PlainConfig, Signals, Socket, serve},
};
use kedge_tunnel_proto::noise::CoreName;
use tracing::info;

use crate::{
    args::{NoiseCore, WgArgs},
    client::Failure,
    exit::Exit,
    roles,
};

/// Makes the device. In the background this returns as soon as tools can configure it.
///
/// # Errors
///
/// The device cannot be made or served.
pub fn run(args: &WgArgs) -> Result<ExitCode, Failure> {
    if args.foreground || args.detached {
        stay(args)?;
        Ok(Exit::Ok.into())
    } else {
        detach()
    }
}

/// The command line, with `wg` in it when the executable was called by its other name.
#[must_use]
pub fn by_name(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name == Some(OsStr::new(NAME)) {
        arguments.insert(1, "wg".into());
    }
    arguments
}

/// How much is logged, as `LOG_LEVEL` says it; `None` when it says nothing.
#[must_use]
pub fn log_level() -> Option<&'static str> {
    match env::var("LOG_LEVEL").ok()?.as_str() {
        "verbose" | "debug" => Some("debug"),
        "error" => Some("error"),
        "silent" => Some("off"),
        _ => None,
    }
}

fn stay(args: &WgArgs) -> Result<(), Failure> {
    if args.detached {
        // It fails for whoever leads a group, and such a one is detached already.
        let _ = process::leave_the_terminal();
    }
    let runtime = roles::calm_runtime()?;
    let signals = {
        let _inside = runtime.enter();
        Signals::take().map_err(|error| error.problem())?
    };
    let device = Plain::open(PlainConfig {
        ifname: args.ifname.clone(),
        tun: handed_over("WG_TUN_FD")?,
        noise_core: match args.noise_core {
            NoiseCore::Boringtun => CoreName::Boringtun,
            NoiseCore::Own => CoreName::Own,
        },
        workers: Workers::of_plain(args.workers.0),
    })
    .map_err(|error| error.problem())?;
    let socket = match handed_over("WG_UAPI_FD")? {
        Some(fd) => Socket::adopt(fd, device.ifname()),
        None => Socket::bind(device.ifname()),
    }
    .map_err(|error| error.problem())?;
    let ready = || {
        if !args.detached {
            return Ok(());
        }
        out!("{READY}\n");
        // Whoever asked for logs has them where the first process had its own.
        process::let_go_of_output(log_level().is_none_or(|level| level == "off"))
    };
    let ended = runtime.block_on(serve(device, &socket, signals, ready));
    drop(runtime);
    let end = ended.map_err(|error| error.problem())?;
    let because = match end {
        End::InterfaceDeleted => "its interface was deleted",
        End::SocketDeleted => "its socket was deleted",
        End::Signal => "a signal",
    };
    info!(ifname = args.ifname, because, "WireGuard device closed");
    Ok(())
}

/// Starts the process that stays, and waits until tools can configure its device.
fn detach() -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| -> Failure {
        Problem::new(
            Code::SysUnexpected,
            "the device's process cannot be started",
        )
        .caused_by(&error)
        .consequence("there is no device")
        .fix(Fix::text("stay in the foreground").command("kedge wg --foreground IFNAME"))
        .into()
    };
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // Behind `--` there are names alone.
    let arguments: Vec<OsString> = arguments.collect();
    let names = arguments.iter().position(|argument| argument == "--");
    let (flags, names) = arguments.split_at(names.unwrap_or(arguments.len()));
    let mut child = command
        .args(flags)
        .arg("--detached")
        .args(names)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    if line.trim_end() == READY {
        return Ok(Exit::Ok.into());
    }
    // It has said why.
    let code = child.wait().map_err(failed)?.code();
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code.max(1)))
}

/// What a variable says is open.
fn handed_over(variable: &str) -> Result<Option<OwnedFd>, Problem> {
    let Ok(text) = env::var(variable) else {
        return Ok(None);
    };
    let number = text.parse::<RawFd>().map_err(io::Error::other);
    number
        .and_then(process::inherited)
        .map(Some)
        .map_err(|error| {
            Problem::new(
                Code::SysUsage,
                format!("{variable}={text} is no open descriptor"),
            )
            .caused_by(&error)
            .consequence("there is no device")
        })
}

/// The name of a link to the executable that means `kedge wg`: wg-quick takes one word.
const NAME: &str = "kedge-wg";

/// What the process that stays says to the one that was called.
const READY: &str = "ready";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_name_is_the_command() {
        let of = |line: &str| -> Vec<OsString> { by_name(line.split(' ').map(OsString::from)) };
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        for (called, meant) in [
            ("/usr/bin/kedge-wg wg0", "/usr/bin/kedge-wg wg wg0"),
            ("kedge-wg -f wg0", "kedge-wg wg -f wg0"),
            ("kedge-wg", "kedge-wg wg"),
            ("kedge wg wg0", "kedge wg wg0"),
            ("kedge status", "kedge status"),
        ] {
            assert_eq!(of(called), words(meant));
        }
    }
}
