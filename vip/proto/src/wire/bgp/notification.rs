//! NOTIFICATION (RFC 4271 section 4.5): why a session ends.

use std::fmt;

use super::{
    Fault, HEADER_LEN, MAX_LEN,
    frame::{self, Kind},
};

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notification {
    code: u8,
    subcode: u8,
    data: Vec<u8>,
}

/// What people say to people as a session ends (RFC 9003): up to 255 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text(String);

/// What was read ends the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What to tell the peer.
    pub notification: Notification,
    /// What was wrong, where it was in an UPDATE.
    pub fault: Option<Fault>,
}

impl Notification {
    /// One with so much of `data` as a message holds.
    #[must_use]
    pub fn new(code: u8, subcode: u8, mut data: Vec<u8>) -> Self {
        data.truncate(MAX_LEN - HEADER_LEN - 2);
        Self {
            code,
            subcode,
            data,
        }
    }

    /// One that ends the session by will.
    #[must_use]
    pub fn cease(subcode: u8) -> Self {
        Self::new(codes::CEASE, subcode, Vec::new())
    }

    /// The session is taken down by whoever runs this host (RFC 9003).
    #[must_use]
    pub fn shutdown(text: &Text) -> Self {
        let bytes = text.0.as_bytes();
        let mut data = vec![u8::try_from(bytes.len()).unwrap_or_default()];
        data.extend(bytes);
        Self::new(codes::CEASE, cease::SHUTDOWN, data)
    }

    /// The same, and the peer keeps no routes for a restart (RFC 8538 section 3.1).
    #[must_use]
    pub fn hard(self) -> Self {
        let mut data = vec![self.code, self.subcode];
        data.extend(self.data);
        Self::new(codes::CEASE, cease::HARD_RESET, data)
    }

    /// Its code.
    #[must_use]
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// Its subcode.
    #[must_use]
    pub const fn subcode(&self) -> u8 {
        self.subcode
    }

    /// What it carries.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Whether it is this one, or wraps it.
    #[must_use]
    pub fn is(&self, code: u8, subcode: u8) -> bool {
        let inner = self.inner();
        inner.code == code && inner.subcode == subcode
    }

    /// What people said.
    #[must_use]
    pub fn text(&self) -> Option<Text> {
        let inner = self.inner();
        let says = matches!(inner.subcode, cease::SHUTDOWN | cease::RESET);
        let (length, rest) = inner.data.split_first()?;
        let bytes = rest.get(..usize::from(*length))?;
        (inner.code == codes::CEASE && says && !bytes.is_empty())
            .then(|| Text::new(&String::from_utf8_lossy(bytes)))
    }

    /// What a hard reset wraps, or itself.
    fn inner(&self) -> Self {
        match (self.code, self.subcode, self.data.as_slice()) {
            (codes::CEASE, cease::HARD_RESET, &[code, subcode, ref data @ ..]) => {
                Self::new(code, subcode, data.to_vec())
            }
            _ => self.clone(),
        }
    }

    /// Reads what follows the header; of what is cut short, nothing is known.
    pub(super) fn parse(body: &[u8]) -> Self {
        match *body {
            [code, subcode, ref data @ ..] => Self::new(code, subcode, data.to_vec()),
            _ => Self::new(0, 0, Vec::new()),
        }
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut body = vec![self.code, self.subcode];
        body.extend(&self.data);
        frame::put(out, Kind::Notification, &body);
    }
}

impl Text {
    /// So much of `text` as fits, without control characters.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut kept = String::new();
        for letter in text.chars().filter(|letter| !letter.is_control()) {
            if kept.len() + letter.len_utf8() > usize::from(u8::MAX) {
                break;
            }
            kept.push(letter);
        }
        Self(kept)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Notification> for Refusal {
    fn from(notification: Notification) -> Self {
        Self {
            notification,
            fault: None,
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if (self.code, self.subcode) == (codes::CEASE, cease::HARD_RESET) && self.data.len() >= 2 {
            return write!(f, "hard reset: {}", self.inner());
        }
        let (code, subcode) = (self.code, self.subcode);
        match (codes::name(code), codes::subname(code, subcode)) {
            (Some(name), Some(subname)) => write!(f, "{name}/{subname}")?,
            (Some(name), None) if subcode == 0 => f.write_str(name)?,
            (Some(name), None) => write!(f, "{name}/{subcode}")?,
            (None, _) => write!(f, "error {code}/{subcode}")?,
        }
        match self.text() {
            Some(text) => write!(f, " \"{text}\""),
            None => Ok(()),
        }
    }
}

/// The subcodes of Cease (RFC 4486, RFC 8538, RFC 9384).
pub mod cease {
    /// The peer sent more routes than it may.
    pub const MAX_PREFIXES: u8 = 1;
    /// Taken down by whoever runs it.
    pub const SHUTDOWN: u8 = 2;
    /// The peer is no longer configured.
    pub const DECONFIGURED: u8 = 3;
    /// To begin anew, by whoever runs it.
    pub const RESET: u8 = 4;
    /// Nobody takes the connection.
    pub const REJECTED: u8 = 5;
    /// Another configuration, for which it has to begin anew.
    pub const RECONFIGURED: u8 = 6;
    /// Of two connections the other one is kept.
    pub const COLLISION: u8 = 7;
    /// Nothing is kept for a restart.
    pub const HARD_RESET: u8 = 9;
    /// BFD lost the peer.
    pub const BFD_DOWN: u8 = 10;
}

/// The codes of errors, and the subcodes of those that are no Cease (RFC 4271 section 4.5,
/// RFC 5492, RFC 6608, RFC 7313, RFC 9687).
pub mod codes {
    use super::cease;

    /// A message's header.
    pub const HEADER: u8 = 1;
    /// An OPEN.
    pub const OPEN: u8 = 2;
    /// An UPDATE.
    pub const UPDATE: u8 = 3;
    /// Silence.
    pub const HOLD: u8 = 4;
    /// A message at the wrong time.
    pub const STATE: u8 = 5;
    /// By will.
    pub const CEASE: u8 = 6;
    /// A ROUTE-REFRESH.
    pub const REFRESH: u8 = 7;
    /// The peer took nothing for too long.
    pub const SEND_HOLD: u8 = 8;

    /// Of a header: its marker is none.
    pub const NOT_SYNCHRONIZED: u8 = 1;
    /// Of a header: its length is none of its kind.
    pub const BAD_LENGTH: u8 = 2;
    /// Of a header: nobody knows its kind.
    pub const BAD_TYPE: u8 = 3;

    /// Of an OPEN: another version.
    pub const VERSION: u8 = 1;
    /// Of an OPEN: another autonomous system.
    pub const PEER_AS: u8 = 2;
    /// Of an OPEN: an identifier that is none, or ours.
    pub const IDENTIFIER: u8 = 3;
    /// Of an OPEN: a parameter nobody knows.
    pub const PARAMETER: u8 = 4;
    /// Of an OPEN: a hold time of one or two seconds.
    pub const HOLD_TIME: u8 = 6;
    /// Of an OPEN: a capability is missing.
    pub const CAPABILITY: u8 = 7;

    /// Of an UPDATE: its lengths contradict each other.
    pub const ATTRIBUTE_LIST: u8 = 1;
    /// Of an UPDATE: an attribute that everybody must know, and nobody does.
    pub const UNRECOGNIZED: u8 = 2;
    /// Of an UPDATE: an optional attribute.
    pub const OPTIONAL: u8 = 9;
    /// Of an UPDATE: its destinations.
    pub const NETWORK: u8 = 10;

    /// The name of a code.
    pub(super) const fn name(code: u8) -> Option<&'static str> {
        Some(match code {
            HEADER => "message header error",
            OPEN => "OPEN error",
            UPDATE => "UPDATE error",
            HOLD => "hold timer expired",
            STATE => "state machine error",
            CEASE => "cease",
            REFRESH => "ROUTE-REFRESH error",
            SEND_HOLD => "send hold timer expired",
            _ => return None,
        })
    }

    /// The name of a subcode.
    pub(super) const fn subname(code: u8, subcode: u8) -> Option<&'static str> {
        Some(match (code, subcode) {
            (HEADER, NOT_SYNCHRONIZED) => "connection not synchronized",
            (HEADER, BAD_LENGTH) => "bad message length",
            (HEADER, BAD_TYPE) => "bad message type",
            (OPEN, VERSION) => "unsupported version number",
            (OPEN, PEER_AS) => "bad peer AS",
            (OPEN, IDENTIFIER) => "bad BGP identifier",
            (OPEN, PARAMETER) => "unsupported optional parameter",
            (OPEN, HOLD_TIME) => "unacceptable hold time",
            (OPEN, CAPABILITY) => "unsupported capability",
            (OPEN, 11) => "role mismatch",
            (UPDATE, ATTRIBUTE_LIST) => "malformed attribute list",
            (UPDATE, UNRECOGNIZED) => "unrecognized well-known attribute",
            (UPDATE, 3) => "missing well-known attribute",
            (UPDATE, 4) => "attribute flags error",
            (UPDATE, 5) => "attribute length error",
            (UPDATE, 6) => "invalid ORIGIN attribute",
            (UPDATE, 8) => "invalid NEXT_HOP attribute",
            (UPDATE, OPTIONAL) => "optional attribute error",
            (UPDATE, NETWORK) => "invalid network field",
            (UPDATE, 11) => "malformed AS_PATH",
            (STATE, 1) => "unexpected message in OpenSent",
            (STATE, 2) => "unexpected message in OpenConfirm",
            (STATE, 3) => "unexpected message in Established",
            (CEASE, cease::MAX_PREFIXES) => "maximum number of prefixes reached",
            (CEASE, cease::SHUTDOWN) => "administrative shutdown",
            (CEASE, cease::DECONFIGURED) => "peer de-configured",
            (CEASE, cease::RESET) => "administrative reset",
            (CEASE, cease::REJECTED) => "connection rejected",
            (CEASE, cease::RECONFIGURED) => "other configuration change",
            (CEASE, cease::COLLISION) => "connection collision resolution",
            (CEASE, 8) => "out of resources",
            (CEASE, cease::HARD_RESET) => "hard reset",
            (CEASE, cease::BFD_DOWN) => "BFD down",
            (REFRESH, 1) => "invalid message length",
            _ => return None,
        })
    }
}
