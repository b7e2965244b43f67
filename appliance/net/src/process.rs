//! This process and others: its death as a descriptor, its signals, its place in the kernel's list
//! of victims; whether a process of a name runs, and the moment it ends.

use std::{
    ffi::{CStr, OsStr},
    fs, io,
    os::{
        fd::{OwnedFd, RawFd},
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixListener},
        },
    },
    path::Path,
};

use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
    process::{Pid, PidfdFlags, getpid, pidfd_open},
};
use tokio::io::unix::AsyncFd;

use crate::sys;

/// A descriptor that becomes readable when this process has ended, for another one to hold.
///
/// # Errors
///
/// The process has no descriptors left.
pub fn own_end() -> io::Result<OwnedFd> {
    Ok(pidfd_open(getpid(), PidfdFlags::empty())?)
}

/// Ignores what a terminal or a service manager sends to a whole group of processes: SIGINT,
/// SIGTERM and SIGHUP.
///
/// # Errors
///
/// The kernel's answer; it has no reason to give one.
pub fn ignore_signals_to_the_group() -> io::Result<()> {
    sys::signals::ignore(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}

/// Gives this process a name for lists and logs, of which the kernel keeps 15 bytes. One that was started
/// from a link has the name of that.
///
/// # Errors
///
/// The kernel's answer; it has no reason to give one.
pub fn call_itself(name: &CStr) -> io::Result<()> {
    Ok(rustix::thread::set_name(name)?)
}

/// A descriptor that was left open for this process, by its number. The original stays open.
///
/// # Errors
///
/// No descriptor has that number.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    sys::descriptor::inherited(number)
}

/// Leaves the terminal and the group of processes this one was started in.
///
/// # Errors
///
/// The kernel's answer: it leads a group already.
pub fn leave_the_terminal() -> io::Result<()> {
    Ok(rustix::process::setsid().map(drop)?)
}

/// Lets go of what stdout leads to, and of what stderr leads to if nobody reads it: what is written
/// from here on is lost, and whoever waits at the other end sees its end.
///
/// # Errors
///
/// There is no `/dev/null`.
pub fn let_go_of_output(stderr: bool) -> io::Result<()> {
    let nowhere = fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    if stderr {
        rustix::stdio::dup2_stderr(&nowhere)?;
    }
    Ok(())
}

/// Listens on a socket that its owner alone may use, whatever the mask of the process.
///
/// # Errors
///
/// The kernel's answer.
pub fn listen_privately(address: &SocketAddr) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file is made with the mode of the socket.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let path = address.as_pathname().ok_or(io::ErrorKind::InvalidInput)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket.into())
}

/// Asks the kernel to kill every other process first when memory runs out.
///
/// # Errors
///
/// The kernel's answer, `EACCES` without `CAP_SYS_RESOURCE`.
pub fn be_killed_last() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000")
}

/// Waits on a thread of its own for a child to end that this process knows by its number alone, so
/// that it does not stay as a zombie. One that is nobody's child here is none of its business.
pub fn reap(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    let wait = move || {
        // ECHILD when it is no child.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    };
    // Without a thread it stays a zombie until this process ends.
    let _ = std::thread::Builder::new()
        .name("kedge-reap".into())
        .spawn(wait);
}

/// A process that ran when it was found; it is held by a descriptor, so that its end is seen at
/// once and nobody else's process of the same number is taken for it.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    fd: AsyncFd<OwnedFd>,
}

impl Process {
    /// The process of that name with the lowest number, if one runs. The name is that of the
    /// kernel (`comm`, of which it keeps 15 bytes), or of the program as it was started (`argv[0]`
    /// without directory). Zombies do not run.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read, or the process has no descriptors left.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        let mut numbers: Vec<i32> = fs::read_dir("/proc")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        for number in numbers {
            if !is_called(number, name) {
                continue;
            }
            let Some(pid) = Pid::from_raw(number) else {
                continue;
            };
            let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
                // It ended since.
                continue;
            };
            // The number may have been given to another one before it was held.
            if is_called(number, name) {
                let fd = sys::descriptor::watch(fd)?;
                return Ok(Some(Self { pid, fd }));
            }
        }
        Ok(None)
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits until it has ended. Loses nothing when it is cancelled.
    ///
    /// # Errors
    ///
    /// The runtime is ending.
    pub async fn ended(&self) -> io::Result<()> {
        // A process's descriptor becomes readable once, when it ends, and stays so.
        self.fd
            .readable()
            .await
            .map(|mut ready| ready.retain_ready())
    }
}

/// Whether the process of that number runs under that name.
fn is_called(number: i32, name: &str) -> bool {
    let read = |file: &str| fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
    let comm = read("comm");
    let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
    let called = comm == name.as_bytes() || {
        let line = read("cmdline");
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let base = Path::new(OsStr::from_bytes(program)).file_name();
        base.is_some_and(|base| base == name)
    };
    called && !is_over(&read("stat"))
}

/// Whether `/proc/PID/stat` is that of a process that has ended; nothing is one that is gone. The
/// state stands behind the name, which may contain anything.
fn is_over(stat: &[u8]) -> bool {
    let behind = stat.iter().rposition(|byte| *byte == b')');
    let state = behind.and_then(|at| stat.get(at + 2));
    !state.is_some_and(|state| !matches!(state, b'Z' | b'X' | b'x'))
}

#[cfg(test)]
mod tests {
    use std::{
        path::PathBuf,
        process::{Child, Command},
        time::{Duration, Instant},
    };

    use super::*;

    /// A program of a name that no other process has.
    fn program(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::copy("/bin/sleep", &path).unwrap();
        path
    }

    fn name(program: &Path) -> String {
        program.file_name().unwrap().to_str().unwrap().to_owned()
    }

    fn run(program: &Path) -> Child {
        Command::new(program).arg("60").spawn().unwrap()
    }

    /// The process, as soon as it has become its program.
    async fn found(name: &str) -> Process {
        let limit = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(process) = Process::find(name).unwrap() {
                return process;
            }
            assert!(Instant::now() < limit, "{name} is not found");
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn a_thread_has_the_name_it_gave_itself() {
        let name = std::thread::spawn(|| {
            call_itself(c"kedge-named").unwrap();
            fs::read_to_string("/proc/thread-self/comm").unwrap()
        });
        assert_eq!(name.join().unwrap(), "kedge-named\n");
    }

    #[tokio::test]
    async fn a_process_is_found_by_name_and_its_end_is_seen_at_once() {
        // Longer than the kernel's own name for it.
        let program = program("kedge-a-long-name");
        let name = name(&program);
        assert!(Process::find(&name).unwrap().is_none());
        let mut child = run(&program);
        let process = found(&name).await;
        assert_eq!(process.pid(), i32::try_from(child.id()).unwrap());
        let pending = tokio::time::timeout(Duration::from_millis(20), process.ended());
        assert!(pending.await.is_err(), "it runs");
        child.kill().unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(5), process.ended());
        ended.await.unwrap().unwrap();
        // Nobody has waited for it: a zombie does not run.
        assert!(Process::find(&name).unwrap().is_none());
        process.ended().await.unwrap();
        child.wait().unwrap();
        fs::remove_file(program).unwrap();
    }

    #[tokio::test]
    async fn of_several_the_first_is_held_and_the_next_is_found_after_it() {
        let program = program("kedge-two");
        let name = name(&program);
        let mut children = [run(&program), run(&program)];
        let first = found(&name).await;
        let other = |pid: i32| {
            let pids = children
                .iter()
                .map(|child| i32::try_from(child.id()).unwrap());
            pids.into_iter().find(|it| *it != pid).unwrap()
        };
        let second = other(first.pid());
        for child in &mut children {
            if i32::try_from(child.id()).unwrap() == first.pid() {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        first.ended().await.unwrap();
        assert_eq!(found(&name).await.pid(), second);
        for child in &mut children {
            _ = child.kill();
            _ = child.wait();
        }
        fs::remove_file(program).unwrap();
    }

    #[test]
    fn the_state_stands_behind_a_name_that_may_contain_anything() {
        assert!(!is_over(b"7 (a) S 1 7"));
        assert!(is_over(b"7 (a) Z 1 7"));
        assert!(!is_over(b"7 (a) Z () S 1 7"));
        assert!(is_over(b""));
        assert!(is_over(b"7 (a)"));
    }
}
