//! How many workers a device has.

use std::thread;

/// How many workers a device has, and why so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// 1 to [`MOST`](Self::MOST).
    pub count: u8,
    /// Why.
    pub because: &'static str,
}

impl Workers {
    /// As many as a device can have.
    pub const MOST: u8 = 4;

    /// One: the few peers of a host share it.
    pub const ONE: Self = Self {
        count: 1,
        because: "auto: a host has few peers",
    };

    /// Those of a gateway: as many as `configured`, or one for each processor.
    #[must_use]
    pub fn of_gateway(configured: Option<u8>) -> Self {
        match configured {
            Some(count) => Self::configured(count),
            None => Self {
                count: thread::available_parallelism()
                    .map_or(1, |processors| {
                        u8::try_from(processors.get()).unwrap_or(u8::MAX)
                    })
                    .min(Self::MOST),
                because: "auto: one for each processor, up to 4",
            },
        }
    }

    /// As many as a command line says; none says one for each processor.
    #[must_use]
    pub fn of_plain(asked: Option<u8>) -> Self {
        match asked {
            Some(count) => Self {
                because: "--workers says so",
                ..Self::configured(count)
            },
            None => Self::of_gateway(None),
        }
    }

    /// As many as somebody said.
    #[must_use]
    pub fn configured(count: u8) -> Self {
        Self {
            count: count.clamp(1, Self::MOST),
            because: "tunnel.workers says so",
        }
    }
}
