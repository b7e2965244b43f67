//! Questions whether a way works, which move nobody.

use kedge_core::Instant;

use super::{Message, Peer, Received};
use crate::{
    counters::State, drops::DropReason, fallback::Question, noise::Opened, packet::ecn::Ecn,
    way::Way, wire::DATA_OVERHEAD,
};

impl Peer {
    /// Asks over the way to `place`, wherever packets go; `None` where there is no session.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        way: Way,
        number: u64,
        dst: &mut [u8],
    ) -> Option<Message> {
        let question = Question {
            is_answer: false,
            number,
        };
        self.say(now, way, question, dst)
    }

    /// The question or answer in a data message that was opened and is no IP packet.
    pub(super) fn questioned(
        opened: Result<Opened, DropReason>,
        datagram: &[u8],
        dst: &[u8],
    ) -> Option<Question> {
        let length = datagram.len().checked_sub(DATA_OVERHEAD)?;
        let inner = dst.get(..length)?;
        (opened == Err(DropReason::NotIp))
            .then(|| Question::parse(inner))
            .flatten()
    }

    /// Answers a question the way it came, and takes note of an answer. Neither is a reason to go
    /// elsewhere: whoever asks finds out whether he could.
    pub(super) fn hear_question(
        &mut self,
        now: Instant,
        from: Way,
        question: Question,
        length: usize,
        dst: &mut [u8],
    ) -> Received {
        self.counters.received(now, length);
        match question.answer() {
            Some(answer) => match self.say(now, from, answer, dst) {
                Some(message) => Received::Reply(message),
                None => Received::Nothing,
            },
            None => {
                self.counters.answered(question.number);
                Received::Nothing
            }
        }
    }

    fn say(
        &mut self,
        now: Instant,
        way: Way,
        question: Question,
        dst: &mut [u8],
    ) -> Option<Message> {
        if self.state != State::Connected {
            return None;
        }
        // It says nothing of the way in use, whose keepalives go on.
        let length = self.core.seal(now, &question.emit(), dst).ok()?;
        self.counters.sent(length);
        Some(Message {
            to: way.there,
            from: way.here,
            length,
            ecn: Ecn::NOT_ECT,
        })
    }
}
