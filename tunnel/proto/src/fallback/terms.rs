//! What the way to a gateway is told, and what it says.

use std::{fmt, time::Duration};

use kedge_core::Instant;

/// How patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// After so long without an answer over UDP a stream is taken.
    pub patience: Duration,
    /// After so long it is asked for.
    pub call_after: Duration,
    /// After so long without an answer over the usual port the other one is tried, where there is one.
    pub other_after: Duration,
    /// How long it is given for its first answer.
    pub other_patience: Duration,
    /// How long it is left alone when it gave none.
    pub other_pause: Duration,
    /// After so long without an answer a stream, or another port, that is in use is given up.
    pub deaf_after: Duration,
    /// How long an answer over UDP is waited for until the next question.
    pub ask: Duration,
    /// From an answer to the next question.
    pub ask_again: Duration,
    /// Answers in a row that lead back to UDP.
    pub answers: u32,
    /// From one return to UDP to the next.
    pub return_pause: Duration,
    /// How long a stream stays after it was left: what is on its way arrives.
    pub linger: Duration,
    /// The first pause before a stream that failed is asked for again. It doubles.
    pub first_pause: Duration,
    /// The longest.
    pub longest_pause: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(15),
            call_after: Duration::from_secs(5),
            other_after: Duration::from_secs(5),
            other_patience: Duration::from_secs(5),
            other_pause: Duration::from_secs(15),
            deaf_after: Duration::from_secs(10),
            ask: Duration::from_secs(5),
            ask_again: Duration::from_secs(1),
            answers: 3,
            return_pause: Duration::from_mins(1),
            linger: Duration::from_secs(5),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(15),
        }
    }
}

/// The way datagrams take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// As it should be.
    #[default]
    Udp,
    /// Over UDP to another port, which firewalls let pass for other things.
    Other,
    /// In a stream over TLS.
    Tls,
}

/// Which ways there are beside the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Another port over UDP.
    pub other: bool,
    /// A stream over TLS.
    pub tls: bool,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// When the last question through the tunnel was answered, whichever way it took.
    Answered(Instant),
    /// There is a stream.
    Called,
    /// There is none, or no longer.
    Broken,
    /// The question of that number was answered over UDP.
    AnsweredOverUdp(u64),
    /// The network changed: what failed is tried at once.
    Changed,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make a stream.
    Call,
    /// No stream is needed.
    HangUp,
    /// Send this way from here on.
    Take {
        /// The way.
        way: Way,
        /// Why.
        because: Because,
    },
    /// The other port is in use, and answers.
    Proven,
    /// Ask over UDP.
    Ask(u64),
    /// Ask over UDP to the other port.
    AskOther(u64),
}

/// Why datagrams take the way they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// UDP comes first, and nothing speaks against it.
    First,
    /// Nothing was answered over UDP for so long.
    Silent(Duration),
    /// The stream broke.
    Broken,
    /// The stream carried no answer for so long.
    Deaf(Duration),
    /// The other port gave no answer for so long.
    OtherDeaf(Duration),
    /// So many questions in a row were answered over UDP.
    Answered(u32),
}

/// Why an input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// There was no such question, or it was answered already.
    #[error("the answer to no question")]
    Unasked,
    /// No stream was asked for.
    #[error("a stream that nobody asked for")]
    Uncalled,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Other => "udp, another port",
            Self::Tls => "tls",
        })
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("UDP comes first"),
            Self::Silent(silence) => {
                write!(f, "UDP got no answer for {:.0} s", silence.as_secs_f64())
            }
            Self::Broken => f.write_str("the connection over TLS broke"),
            Self::Deaf(deaf) => write!(
                f,
                "the connection over TLS carried no answer for {:.0} s",
                deaf.as_secs_f64()
            ),
            Self::OtherDeaf(deaf) => write!(
                f,
                "the other UDP port got no answer for {:.0} s",
                deaf.as_secs_f64()
            ),
            Self::Answered(many) => write!(f, "UDP answered {many} times in a row"),
        }
    }
}
