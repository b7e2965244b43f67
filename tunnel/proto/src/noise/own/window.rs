//! Which packets of a session have been seen. RFC 6479.

/// The last 8 192 counters of a session.
pub(super) struct Window {
    /// One more than the highest counter seen.
    next: u64,
    /// A ring of bits, one for each counter; one word more than the window, because it begins
    /// and ends inside words.
    seen: [u64; WORDS],
}

impl Window {
    pub(super) const fn new() -> Self {
        Self {
            next: 0,
            seen: [0; WORDS],
        }
    }

    /// Whether `counter` is neither seen nor too old to tell. Changes nothing: before a packet is
    /// authentic it must not.
    pub(super) fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            return counter < LIMIT;
        }
        let (word, bit) = place(counter);
        self.next - counter <= SIZE && self.seen.get(word).is_some_and(|word| word & bit == 0)
    }

    /// Takes note of `counter`; false when it is not new.
    pub(super) fn mark(&mut self, counter: u64) -> bool {
        if !self.is_new(counter) {
            return false;
        }
        if counter >= self.next {
            let (first, last) = (self.next.div_ceil(64), counter / 64);
            for number in first..=last.min(first.saturating_add(WORDS as u64)) {
                if let Some(word) = self.seen.get_mut(place(number * 64).0) {
                    *word = 0;
                }
            }
            self.next = counter + 1;
        }
        let (word, bit) = place(counter);
        if let Some(word) = self.seen.get_mut(word) {
            *word |= bit;
        }
        true
    }
}

/// The word of a counter, and its bit.
fn place(counter: u64) -> (usize, u64) {
    let word = usize::try_from(counter / 64 % WORDS as u64).unwrap_or(usize::MAX);
    (word, 1 << (counter % 64))
}

/// Counters that may come late.
pub(super) const SIZE: u64 = 8_192;

/// `REJECT_AFTER_MESSAGES`: no packet of a session has this counter or a higher one.
pub(super) const LIMIT: u64 = u64::MAX - (1 << 13);

const WORDS: usize = SIZE as usize / 64 + 1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_counter_passes_once_as_long_as_it_is_in_the_window() {
        let mut window = Window::new();
        assert!(window.mark(0) && !window.mark(0));
        assert!(window.mark(SIZE));
        assert!(!window.mark(0), "seen, and too old");
        assert!(window.mark(1), "the oldest in the window");
        assert!(window.mark(SIZE + 1));
        assert!(!window.mark(1) && window.mark(2));
        assert!(window.mark(1_000_000));
        assert!(!window.is_new(1_000_000 - SIZE) && window.is_new(1_000_000 - SIZE + 1));
    }

    #[test]
    fn the_last_counters_of_all_are_refused() {
        let mut window = Window::new();
        for counter in [LIMIT, LIMIT + 1, u64::MAX] {
            assert!(!window.mark(counter));
        }
        assert!(window.mark(LIMIT - 1));
        assert!(window.mark(LIMIT - SIZE) && !window.mark(LIMIT - SIZE - 1));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(
            start in prop_oneof![Just(0_u64), 0..u64::MAX - 10_000_000],
            steps in prop::collection::vec((0_u8..10, 0_u64..20_000), 1..400),
        ) {
            let mut window = Window::new();
            let mut seen = BTreeSet::new();
            let mut highest = start;
            for (kind, by) in steps {
                let counter = match kind {
                    0..6 => highest.saturating_sub(by % 9_000),
                    6..9 => highest + by % 70,
                    _ => highest + by,
                };
                let newest = seen.last().copied();
                let late = newest.is_some_and(|newest: u64| newest >= counter && newest - counter >= SIZE);
                let expected = counter < LIMIT && !late && !seen.contains(&counter);
                prop_assert_eq!(window.is_new(counter), expected);
                prop_assert_eq!(window.mark(counter), expected, "{}", counter);
                if expected {
                    seen.insert(counter);
                    highest = highest.max(counter);
                }
            }
        }
    }
}
