//! Programs whose words are passed on as they come, and whose last are kept: a report that is cut in the
//! middle still says at its end what failed.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Write as _},
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

/// How a program ended, and the last it said.
#[derive(Debug)]
pub struct Heard {
    /// Its end.
    pub status: ExitStatus,
    /// At most [`LINES`] lines: errors and output in the order in which they were written.
    pub last: Vec<String>,
}

/// A program that runs, and is heard.
pub struct Hearing {
    process: Child,
    ended: Receiver<io::Result<()>>,
    last: Arc<Mutex<VecDeque<String>>>,
}

/// Starts a program. Each of its lines is passed on with `begin` before it.
pub fn start(mut command: Command, begin: String) -> io::Result<Hearing> {
    let (said, speaks) = io::pipe()?;
    command.stdout(speaks.try_clone()?).stderr(speaks);
    let process = command.spawn()?;
    let last = Arc::new(Mutex::new(VecDeque::with_capacity(LINES)));
    let (ends, ended) = mpsc::channel();
    let kept = Arc::clone(&last);
    thread::spawn(move || ends.send(pass_on(BufReader::new(said), &begin, &kept)));
    // The command goes, and with it the ends that write: a reader would wait for them.
    Ok(Hearing {
        process,
        ended,
        last,
    })
}

/// Runs a program to its end. Each of its lines is passed on with `begin` before it.
pub fn run(command: Command, begin: String) -> io::Result<Heard> {
    start(command, begin)?.end()
}

impl Hearing {
    /// Waits for its end.
    pub fn end(mut self) -> io::Result<Heard> {
        let status = self.process.wait()?;
        // What the program left running may hold the pipe for ever.
        if let Ok(read) = self.ended.recv_timeout(REST) {
            read?;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.drain(..).collect();
        Ok(Heard { status, last })
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        // Ended already, unless nobody wants it any more.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn pass_on(mut said: impl BufRead, begin: &str, last: &Mutex<VecDeque<String>>) -> io::Result<()> {
    let mut line = Vec::new();
    while said.read_until(b'\n', &mut line)? > 0 {
        // At once, and whole: others may speak beside it.
        let whole = [begin.as_bytes(), &line].concat();
        // What tests of this program have said would be read as its own failures.
        if !cfg!(test) {
            io::stdout().write_all(&whole)?;
        }
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == LINES {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    Ok(())
}

/// After its end a program's words are read within this, or not at all.
const REST: Duration = Duration::from_secs(5);
const LINES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Heard {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, String::new()).unwrap()
    }

    #[test]
    fn both_streams_are_heard_in_order_and_the_end_is_told() {
        let heard = sh("echo one; echo two >&2; printf three; exit 3");
        assert_eq!(heard.last, ["one", "two", "three"]);
        assert_eq!(heard.status.code(), Some(3));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let heard = sh("seq 1 1000");
        assert_eq!(heard.last.len(), LINES);
        assert_eq!(heard.last.last().map(String::as_str), Some("1000"));
    }

    #[test]
    fn what_is_left_running_is_not_waited_for_for_ever() {
        let heard = sh("echo gone; sleep 60 & exit 0");
        assert_eq!(heard.last, ["gone"]);
    }

    #[test]
    fn a_signal_is_told() {
        assert!(sh("kill -9 $$").status.to_string().contains("SIGKILL"));
    }
}
