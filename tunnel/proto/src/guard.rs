//! How the door to a device's handshakes stands, for whoever asks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Written by the worker that hears initiations, read by any thread.
#[derive(Debug, Default)]
pub struct Guard {
    under_load: AtomicBool,
    times: AtomicU64,
    sent: AtomicU64,
    proven: AtomicU64,
}

/// One reading of a [`Guard`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardReading {
    /// Strangers have to prove where they are before a handshake.
    pub under_load: bool,
    /// How often that began.
    pub times: u64,
    /// Cookies that were sent.
    pub cookies_sent: u64,
    /// Initiations that came with a cookie that holds.
    pub cookies_proven: u64,
}

impl Guard {
    /// Reads everything.
    #[must_use]
    pub fn read(&self) -> GuardReading {
        GuardReading {
            under_load: self.under_load.load(Ordering::Relaxed),
            times: self.times.load(Ordering::Relaxed),
            cookies_sent: self.sent.load(Ordering::Relaxed),
            cookies_proven: self.proven.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set_under_load(&self, is: bool) {
        if !self.under_load.swap(is, Ordering::Relaxed) && is {
            self.times.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn proven(&self) {
        self.proven.fetch_add(1, Ordering::Relaxed);
    }
}
