//! Telling the service manager: `sd_notify`. Without `NOTIFY_SOCKET` nothing happens.

use std::{error::Error, fmt, io, time::Duration};

use sd_notify::NotifyState;

/// The service manager that started this process, if it listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifier;

impl Notifier {
    /// The notifier of this process.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// Says that the role serves.
    pub fn ready(self, status: &str) {
        report(sd_notify::notify(&[
            NotifyState::Ready,
            NotifyState::Status(&Line(status).to_string()),
        ]));
    }

    /// Sets the line `systemctl status` shows.
    pub fn status(self, status: &str) {
        report(sd_notify::notify(&[NotifyState::Status(
            &Line(status).to_string(),
        )]));
    }

    /// Feeds the watchdog. Only the loop whose standstill matters may call this.
    pub fn watchdog(self) {
        report(sd_notify::notify(&[NotifyState::Watchdog]));
    }

    /// Says that a reload begins; [`Notifier::ready`] ends it.
    pub fn reloading(self) {
        let state = match NotifyState::monotonic_usec_now() {
            Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
            Err(_) => sd_notify::notify(&[NotifyState::Reloading]),
        };
        report(state);
    }

    /// Says that the role is leaving.
    pub fn stopping(self, status: &str) {
        report(sd_notify::notify(&[
            NotifyState::Stopping,
            NotifyState::Status(&Line(status).to_string()),
        ]));
    }

    /// How often to feed the watchdog: half of what the unit allows; `None` when it is off.
    #[must_use]
    pub fn watchdog_period(self) -> Option<Duration> {
        sd_notify::watchdog_enabled().map(|limit| limit / 2)
    }
}

/// A text as one line: a line break would start another assignment of the protocol.
struct Line<'a>(&'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            let c = if c.is_control() { ' ' } else { c };
            fmt::Write::write_char(f, c)?;
        }
        Ok(())
    }
}

fn report(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(
            error = &error as &dyn Error,
            "the service manager was not notified"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_cannot_smuggle_another_assignment() {
        assert_eq!(
            Line("a\nWATCHDOG=trigger\r\0b").to_string(),
            "a WATCHDOG=trigger  b"
        );
    }
}
