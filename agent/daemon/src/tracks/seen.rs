//! What is known of something that is tracked, in words. No I/O.

use std::fmt;

use crate::config::Tracked;

/// What is known of something that is tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether all is well.
    pub good: bool,
    /// Why, as a sentence without a full stop.
    pub because: String,
}

impl Seen {
    pub(super) fn good(because: impl Into<String>) -> Self {
        Self {
            good: true,
            because: because.into(),
        }
    }

    pub(super) fn bad(because: impl Into<String>) -> Self {
        Self {
            good: false,
            because: because.into(),
        }
    }
}

/// The last answers of a script, until enough of them in a row say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Streak {
    good: bool,
    rise: u32,
    fall: u32,
    /// Answers in a row that speak against the verdict.
    against: u32,
}

impl Streak {
    pub(super) fn new(rise: u32, fall: u32, good: bool) -> Self {
        Self {
            good,
            rise: rise.max(1),
            fall: fall.max(1),
            against: 0,
        }
    }

    pub(super) const fn is_good(&self) -> bool {
        self.good
    }

    /// Takes an answer; in words how far it goes against the verdict, if it does not decide.
    pub(super) fn observe(&mut self, good: bool) -> Option<String> {
        if good == self.good {
            self.against = 0;
            return None;
        }
        let needed = if good { self.rise } else { self.fall };
        self.against = self.against.saturating_add(1);
        if self.against < needed {
            let against = self.against;
            return Some(format!(
                ", {against} of the {needed} times in a row that count"
            ));
        }
        self.against = 0;
        self.good = good;
        None
    }
}

impl fmt::Display for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => write!(f, "interface {name}"),
            Self::Process(name) => write!(f, "process {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Bfd(name) => write!(f, "bfd {name}"),
            Self::Unit(name) => write!(f, "unit {name}"),
            Self::Script(script) => {
                write!(f, "script {}", script.program.display())?;
                script
                    .arguments
                    .iter()
                    .try_for_each(|word| write!(f, " {word}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict after each of `answers`, `+` or `-`.
    fn walk(streak: &mut Streak, answers: &str) -> String {
        let step = |answer: char| {
            streak.observe(answer == '+');
            if streak.is_good() { '+' } else { '-' }
        };
        answers.chars().map(step).collect()
    }

    #[test]
    fn only_answers_in_a_row_count() {
        let mut streak = Streak::new(2, 3, true);
        assert_eq!(walk(&mut streak, "--+--+---+-++-"), "++++++++----++");
        assert_eq!(walk(&mut Streak::new(1, 1, false), "+-+"), "+-+");
        assert_eq!(walk(&mut Streak::new(0, 0, true), "-+"), "-+");
    }

    #[test]
    fn an_answer_that_does_not_decide_yet_says_so() {
        let mut streak = Streak::new(2, 3, true);
        let told = streak.observe(false).unwrap();
        assert_eq!(told, ", 1 of the 3 times in a row that count");
        assert_eq!(streak.observe(true), None);
    }
}
