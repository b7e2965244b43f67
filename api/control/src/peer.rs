//! What the hosts of a VIP tell each other over a link of their own, beside advertisements.
//!
//! A record is its length, two bytes in network order, and so many bytes of JSON.

use kedge_core::vip::Vrid;
use serde::{Deserialize, Serialize};

/// What one host tells another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Record {
    /// Who this is. The first record.
    Hello {
        /// The host's name.
        host: String,
    },
    /// The connection will end, and that says nothing about a process. The last record.
    Closing {
        /// Why.
        because: String,
    },
    /// The VIP of that virtual router will be given away, and the other host is to be the next. Only
    /// the Active asks, and only who stands by for it is asked.
    Succeed {
        /// What the answer names.
        question: u32,
        /// The virtual router.
        vrid: Vrid,
        /// Its family.
        ipv6: bool,
    },
    /// The answer.
    Answer {
        /// The question.
        question: u32,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// What a later version says.
    #[serde(other)]
    Unknown,
}

/// A record that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is longer than any.
    #[error("a record of {0} bytes, where {LONGEST} is the most")]
    TooLong(usize),
    /// It is no JSON of this form.
    #[error("a record that is none")]
    Malformed,
}

impl Record {
    /// The record in bytes. What is too long says nothing.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let length = u16::try_from(text.len())
            .ok()
            .filter(|it| usize::from(*it) <= LONGEST);
        match length {
            Some(length) => [&length.to_be_bytes()[..], &text].concat(),
            None => Vec::new(),
        }
    }

    /// Takes the first record out of `bytes`, once all of it is there.
    ///
    /// # Errors
    ///
    /// It cannot be read; the connection is of no more use.
    pub fn take(bytes: &mut Vec<u8>) -> Result<Option<Self>, RecordError> {
        let Some((length, rest)) = bytes.split_first_chunk::<2>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if length > LONGEST {
            return Err(RecordError::TooLong(length));
        }
        let Some(text) = rest.get(..length) else {
            return Ok(None);
        };
        let record = serde_json::from_slice(text).map_err(|_| RecordError::Malformed)?;
        bytes.drain(..2 + length);
        Ok(Some(record))
    }
}

/// The most bytes of a record.
pub const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn succeed() -> Record {
        Record::Succeed {
            question: 7,
            vrid: Vrid::new(51).unwrap(),
            ipv6: false,
        }
    }

    #[test]
    fn records_come_in_any_pieces() {
        let hello = Record::Hello {
            host: "edge-a".to_owned(),
        };
        let stream = [hello.emit(), succeed().emit()].concat();
        let (mut arrived, mut found) = (Vec::new(), Vec::new());
        for byte in stream {
            arrived.push(byte);
            found.extend(Record::take(&mut arrived).unwrap());
        }
        assert_eq!(found, [hello, succeed()]);
        assert!(arrived.is_empty());
    }

    #[test]
    fn its_form_is_this() {
        let text = r#"{"kind":"succeed","question":7,"vrid":51,"ipv6":false}"#;
        let mut bytes = succeed().emit();
        assert_eq!(bytes.get(2..), Some(text.as_bytes()));
        assert_eq!(Record::take(&mut bytes), Ok(Some(succeed())));
        let later = br#"{"kind":"dance","with":"me"}"#;
        let mut bytes = [&[0, 28][..], later].concat();
        assert_eq!(Record::take(&mut bytes), Ok(Some(Record::Unknown)));
    }

    #[test]
    fn what_is_no_record_ends_it() {
        let long = Record::Hello {
            host: "x".repeat(LONGEST),
        };
        assert!(long.emit().is_empty());
        assert_eq!(
            Record::take(&mut vec![0xff, 0xff]),
            Err(RecordError::TooLong(65_535))
        );
        for text in [&b"\0\x02{}"[..], b"\0\x01{", b"\0\0"] {
            assert_eq!(
                Record::take(&mut text.to_vec()),
                Err(RecordError::Malformed)
            );
        }
    }
}
