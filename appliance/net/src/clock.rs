//! The one clock: CLOCK_BOOTTIME as a value.
