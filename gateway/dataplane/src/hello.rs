//! The name a TLS client asks for, out of the bytes it says first. No I/O.
//!
//! Whole records alone are given to the library, so that what is made of the bytes does not depend
//! on how they were cut on their way.

use std::fmt;

use rustls::server::Acceptor;

/// What a client has said so far. The bytes are kept: they are the member's.
pub(crate) struct Hello {
    said: Vec<u8>,
    /// How many of them the library has.
    given: usize,
    acceptor: Acceptor,
    heard: Option<Result<String, Refused>>,
}

/// What is known of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing yet: more bytes are needed.
    NeedMore,
    /// It, in lower case.
    Name(String),
    /// That nobody will ever be named.
    Refused(Refused),
}

/// Why there is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The bytes are no ClientHello of TLS.
    NoTls,
    /// The client names nobody (RFC 6066 section 3).
    NoName,
    /// The hello is longer than [`MOST`].
    TooLong,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTls => "no hello of TLS",
            Self::NoName => "no name is asked for",
            Self::TooLong => "the hello is too long",
        })
    }
}

impl Hello {
    pub fn new() -> Self {
        Self {
            said: Vec::new(),
            given: 0,
            acceptor: Acceptor::default(),
            heard: None,
        }
    }

    /// How many bytes may still be needed. None once the answer is known.
    pub fn room(&self) -> usize {
        match self.heard {
            Some(_) => 0,
            None => MOST.saturating_sub(self.said.len()),
        }
    }

    /// Takes what the client says next, at most as much as there is [`room`](Self::room) for. The
    /// answer stays once it is known.
    pub fn take(&mut self, bytes: &[u8]) -> Heard {
        self.said.extend_from_slice(bytes);
        while self.heard.is_none() {
            let Some(heard) = self.next_record() else {
                break;
            };
            self.heard = heard;
        }
        if self.room() == 0 && self.heard.is_none() {
            self.heard = Some(Err(Refused::TooLong));
        }
        match &self.heard {
            Some(Ok(name)) => Heard::Name(name.clone()),
            Some(Err(refused)) => Heard::Refused(*refused),
            None => Heard::NeedMore,
        }
    }

    /// Everything the client said.
    pub fn into_bytes(self) -> Vec<u8> {
        self.said
    }

    /// Gives the library one more record: `None` while none is whole, and what is known after it.
    fn next_record(&mut self) -> Option<Option<Result<String, Refused>>> {
        let rest = self.said.get(self.given..).unwrap_or_default();
        let length = match record(rest, MOST.saturating_sub(self.given)) {
            Ok(Some(length)) => length,
            Ok(None) => return None,
            Err(refused) => return Some(Some(Err(refused))),
        };
        let mut record = rest.get(..length)?;
        self.given += length;
        while !record.is_empty() {
            match self.acceptor.read_tls(&mut record) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Some(Some(Err(Refused::TooLong))),
            }
        }
        Some(match self.acceptor.accept() {
            Ok(None) => None,
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_lowercase);
                Some(name.ok_or(Refused::NoName))
            }
            Err(_) => Some(Err(Refused::NoTls)),
        })
    }
}

/// The length of the record at the beginning, with its header, as soon as the header is there
/// (RFC 8446 section 5.1). Whoever says anything else than a handshake is told apart by the first byte.
fn record(bytes: &[u8], most: usize) -> Result<Option<usize>, Refused> {
    let is_not = |at: usize, wanted: u8| bytes.get(at).is_some_and(|byte| *byte != wanted);
    if is_not(0, HANDSHAKE) || is_not(1, VERSION) {
        return Err(Refused::NoTls);
    }
    let (Some(high), Some(low)) = (bytes.get(3), bytes.get(4)) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    match length {
        0 => Err(Refused::NoTls),
        _ if HEADER + length > most => Err(Refused::TooLong),
        _ => Ok((bytes.len() >= HEADER + length).then_some(HEADER + length)),
    }
}

/// Bytes a client may say before it has named somebody. A hello with keys that withstand quantum
/// computers has about two thousand.
pub(crate) const MOST: usize = 16 * 1024;
const HEADER: usize = 5;
/// The content type of a handshake.
const HANDSHAKE: u8 = 22;
/// The first byte of every version of TLS.
const VERSION: u8 = 3;

#[cfg(test)]
mod tests;
