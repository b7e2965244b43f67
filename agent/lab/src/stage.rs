//! What the viewer sees, what the viewer may stop, and waiting for what should happen.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{error::LabError, output::Output};

/// The lines of a run, and its end on SIGINT or SIGTERM.
#[derive(Clone, Debug)]
pub struct Stage {
    begun: Instant,
    output: Output,
    colour: bool,
    stop: Arc<AtomicBool>,
}

impl Stage {
    /// A stage whose run ends on SIGINT and SIGTERM.
    ///
    /// # Errors
    /// When signals cannot be watched.
    pub fn new(output: Output) -> Result<Self, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        watch_signals(Arc::clone(&stop)).map_err(LabError::file("SIGINT and SIGTERM"))?;
        let terminal = match output {
            Output::Table => io::stdout().is_terminal(),
            Output::Json | Output::Yaml => io::stderr().is_terminal(),
        };
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Ok(Self {
            begun: Instant::now(),
            output,
            colour: terminal && !plain,
            stop,
        })
    }

    /// Seconds since the run began.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// A heading.
    pub fn heading(&self, text: &str) {
        self.line(&format!("\n{}", self.paint("1", text)));
    }

    /// A line with the time in front.
    pub fn tell(&self, text: &str) {
        let at = format!("{:6.2}s", self.seconds());
        self.line(&format!("{}  {text}", self.paint("2", &at)));
    }

    /// A line about something that held.
    pub fn good(&self, text: &str) {
        self.tell(&format!("{} {text}", self.paint("32", "✓")));
    }

    /// A line about something that did not.
    pub fn bad(&self, text: &str) {
        self.tell(&format!("{} {text}", self.paint("31", "✗")));
    }

    /// A line that explains the one above.
    pub fn detail(&self, text: &str) {
        self.line(&format!("           {}", self.paint("2", text)));
    }

    /// A line as it is.
    pub fn line(&self, text: &str) {
        // A viewer who left does not end the clean-up.
        _ = match self.output {
            Output::Table => writeln!(io::stdout().lock(), "{text}"),
            Output::Json | Output::Yaml => writeln!(io::stderr().lock(), "{text}"),
        };
    }

    /// Whether somebody wants the run to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until `look` finds something. What it says while it has not found it becomes the
    /// evidence when the limit passes.
    ///
    /// # Errors
    /// When the limit passes, and when the run is to end.
    pub fn eventually<T>(
        &self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut() -> Result<T, String>,
    ) -> Result<T, LabError> {
        let begun = Instant::now();
        loop {
            if self.is_stopped() {
                return Err(LabError::Interrupted);
            }
            match look() {
                Ok(found) => return Ok(found),
                Err(seen) if begun.elapsed() > limit => {
                    return Err(LabError::Late {
                        what: what.to_owned(),
                        limit,
                        seen,
                    });
                }
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Text from a process or a peer, fit for a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect()
            } else {
                vec![c]
            }
        })
        .collect()
}

fn watch_signals(stop: Arc<AtomicBool>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut interrupt, mut terminate, mut hangup) = {
        let _guard = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        )
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                        _ = hangup.recv() => {}
                    }
                    stop.store(true, Ordering::Relaxed);
                }
            });
        })?;
    Ok(())
}

/// The time between two looks: short against what is shown, long against what a look costs.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
