//! A question whether a way works, and its answer: sealed like data, carried on that way, and moving
//! nobody.
//!
//! ```text
//!  0 "KWQ" version 1, kind, reserved 0 0, number u64
//! ```
//! Kinds: 1 a question, 2 its answer, which goes the way of its question. Big-endian. No IP packet begins
//! with a zero.

/// A question or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whether it is the answer.
    pub is_answer: bool,
    /// Which one.
    pub number: u64,
}

impl Question {
    /// Reads what was opened; `None` where it is something else.
    #[must_use]
    pub fn parse(inner: &[u8]) -> Option<Self> {
        let (head, number) = inner.split_first_chunk::<8>()?;
        let [0, b'K', b'W', b'Q', 1, kind @ 1..=2, 0, 0] = *head else {
            return None;
        };
        Some(Self {
            is_answer: kind == 2,
            number: u64::from_be_bytes(number.try_into().ok()?),
        })
    }

    /// What is sealed.
    #[must_use]
    pub fn emit(self) -> [u8; QUESTION] {
        let kind = if self.is_answer { 2 } else { 1 };
        let mut bytes = [0; QUESTION];
        let (head, number) = bytes.split_at_mut(8);
        head.copy_from_slice(&[0, b'K', b'W', b'Q', 1, kind, 0, 0]);
        number.copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// Its answer; an answer has none.
    #[must_use]
    pub fn answer(self) -> Option<Self> {
        (!self.is_answer).then_some(Self {
            is_answer: true,
            ..self
        })
    }
}

/// Bytes in a question, a multiple of 16: it needs no padding.
pub const QUESTION: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written_and_nothing_else_is_one() {
        for is_answer in [false, true] {
            let question = Question {
                is_answer,
                number: 0x0102_0304_0506_0708,
            };
            let bytes = question.emit();
            assert_eq!(Question::parse(&bytes), Some(question));
            for at in 0..8 {
                let mut other = bytes;
                other[at] ^= 0x40;
                assert_eq!(Question::parse(&other), None, "byte {at}");
            }
            assert_eq!(Question::parse(&bytes[..15]), None);
            assert_eq!(Question::parse(&[&bytes[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn an_answer_is_not_answered() {
        let question = Question {
            is_answer: false,
            number: 7,
        };
        let answer = question.answer().unwrap();
        assert_eq!((answer.is_answer, answer.number), (true, 7));
        assert_eq!(answer.answer(), None);
    }
}
