//! What a refused request is answered with.

/// Why a request was refused. What is sent is the number of Linux, below zero: tools print the
/// system's words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Errno {
    /// A key that is not known here, or a value that is none of its key's (`EINVAL`).
    #[error("an unknown key or a value out of its bounds")]
    Invalid,
    /// Something that is no request (`EPROTO`).
    #[error("no request of the protocol")]
    Protocol,
    /// A request beyond what is read (`E2BIG`).
    #[error("a request that is too long")]
    TooBig,
    /// The UDP port is taken (`EADDRINUSE`).
    #[error("the UDP port is taken")]
    AddressInUse,
    /// What is declared elsewhere is not set here (`EPERM`).
    #[error("this device is declared elsewhere")]
    NotPermitted,
    /// The kernel refused, or the device is gone (`EIO`).
    #[error("the kernel refused, or the device is gone")]
    Io,
}

impl Errno {
    /// The number that is sent.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::NotPermitted => -1,
            Self::Io => -5,
            Self::TooBig => -7,
            Self::Invalid => -22,
            Self::Protocol => -71,
            Self::AddressInUse => -98,
        }
    }

    /// Whether what follows on the connection cannot be told apart into requests any more.
    #[must_use]
    pub const fn ends_connection(self) -> bool {
        matches!(self, Self::Protocol | Self::TooBig)
    }
}
