//! Which checksum to send.

/// Which checksum to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChecksumPolicy {
    /// The pseudo-header form, and both forms once a peer turns out to need the other one.
    #[default]
    Auto,
    /// RFC 9568: the message alone.
    Message,
    /// RFC 5798: message and pseudo-header.
    PseudoHeader,
}
