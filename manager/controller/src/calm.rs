//! When the planner has come to rest after work: what the work took can be given back then.

/// Counts beats without work.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    quiet: u32,
    /// Whether nothing was worth telling since it was told last.
    told: bool,
}

impl Calm {
    /// Takes how many namespaces are due at this beat; says whether rest begins with it. It is said
    /// once, and again after a beat with much to do: single changes are rest too.
    pub(crate) const fn beat(&mut self, due: u64) -> bool {
        if due > MUCH {
            self.told = false;
        }
        if due > 0 {
            self.quiet = 0;
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        if self.told || self.quiet < REST {
            return false;
        }
        self.told = true;
        true
    }
}

/// How many namespaces are more than what changes every day.
const MUCH: u64 = 16;
/// How many beats of rest in a row.
const REST: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn told_at(due: &[u64]) -> Vec<usize> {
        let mut calm = Calm::default();
        let beats = due.iter().enumerate();
        let told = beats.filter(|(_, due)| calm.beat(**due));
        told.map(|(beat, _)| beat).collect()
    }

    #[test]
    fn rest_begins_once_after_a_start_and_once_after_much_work() {
        let start = [90, 40, 0, 0, 0, 0, 0];
        assert_eq!(told_at(&start), [6]);
        let single_changes = [[0; 6].as_slice(), &[1, 0, 0, 2], &[0; 9]].concat();
        assert_eq!(told_at(&single_changes), [4]);
        let much_again = [[0; 6].as_slice(), &[17], &[0; 9]].concat();
        assert_eq!(told_at(&much_again), [4, 11]);
    }

    #[test]
    fn there_is_no_rest_while_every_few_beats_bring_something() {
        assert!(told_at(&[0, 0, 0, 0, 1].repeat(5)).is_empty());
    }
}
