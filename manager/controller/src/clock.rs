//! The time of day, so that tests can move it.

use std::{fmt, sync::Arc, time::SystemTime};

use jiff::Timestamp;
use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The system's time.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    /// A time that `tell` tells.
    pub fn new(tell: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// Now, to be compared and printed.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::try_from(self.now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Now as RFC 3339, to the second.
    #[must_use]
    pub fn text(&self) -> String {
        to_text(self.timestamp())
    }
}

/// A time as RFC 3339, to the second.
#[must_use]
pub fn to_text(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = self.now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}
