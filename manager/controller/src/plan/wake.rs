//! When a plan must be made again although nothing happened.

use std::time::Duration;

use jiff::Timestamp;

/// The earliest moment somebody asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wake(Option<Timestamp>);

impl Wake {
    /// Asks for a plan at that moment.
    pub fn at(&mut self, moment: Timestamp) {
        self.0 = Some(self.0.map_or(moment, |earliest| earliest.min(moment)));
    }

    /// `from` and `after`, if that is still to come.
    #[must_use]
    pub fn until(&self, now: Timestamp, from: Timestamp, after: Duration) -> Option<Timestamp> {
        let due = from.checked_add(after).ok()?;
        (due > now).then_some(due)
    }

    /// Whether the patience with what began then is not over yet; if so, it asks for a plan when it
    /// is. What cannot be read is taken for long ago.
    pub fn waits(&mut self, now: &str, since: &str, patience: Duration) -> bool {
        let (Ok(now), Ok(since)) = (now.parse(), since.parse()) else {
            return false;
        };
        let due = self.until(now, since, patience);
        if let Some(due) = due {
            self.at(due);
        }
        due.is_some()
    }

    /// The earliest moment.
    #[must_use]
    pub const fn earliest(&self) -> Option<Timestamp> {
        self.0
    }
}
