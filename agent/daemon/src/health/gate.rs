//! From single probes to a verdict: rise and fall. No I/O.

use kedge_vip_proto::vrrp::Verdict;

/// A health gate.
///
/// ```text
///             1 success                 `fall` failures in a row
///  Unproven ────────────► Healthy ───────────────────────────────► Failing
///                            ▲          `rise` successes in a row     │
///                            └────────────────────────────────────────┘
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    rise: u32,
    fall: u32,
    verdict: Verdict,
    /// Results in a row that speak against the verdict.
    against: u32,
}

impl Gate {
    /// A gate; `restored` is the verdict of an earlier process of the same boot.
    pub fn new(rise: u32, fall: u32, restored: Option<Verdict>) -> Self {
        Self {
            rise: rise.max(1),
            fall: fall.max(1),
            verdict: restored.unwrap_or_default(),
            against: 0,
        }
    }

    /// The verdict.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Failures in a row so far.
    pub const fn against(&self) -> u32 {
        self.against
    }

    /// Takes the result of a probe; the new verdict if it changed.
    pub fn observe(&mut self, success: bool) -> Option<Verdict> {
        let (next, needed) = match (self.verdict, success) {
            (Verdict::Unproven, true) => (Verdict::Healthy, 1),
            (Verdict::Healthy, false) => (Verdict::Failing, self.fall),
            (Verdict::Failing, true) => (Verdict::Healthy, self.rise),
            (Verdict::Unproven | Verdict::Failing, false) | (Verdict::Healthy, true) => {
                self.against = 0;
                return None;
            }
        };
        self.against = self.against.saturating_add(1);
        if self.against < needed {
            return None;
        }
        self.against = 0;
        self.verdict = next;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U: Verdict = Verdict::Unproven;
    const H: Verdict = Verdict::Healthy;
    const F: Verdict = Verdict::Failing;

    /// The verdict after each of `results`, `+` or `-`.
    fn walk(gate: &mut Gate, results: &str) -> Vec<Verdict> {
        let step = |result: char| {
            let changed = gate.observe(result == '+');
            if let Some(verdict) = changed {
                assert_eq!(verdict, gate.verdict());
            }
            gate.verdict()
        };
        results.chars().map(step).collect()
    }

    #[test]
    fn one_success_proves_and_failures_before_it_mean_nothing() {
        let mut gate = Gate::new(2, 3, None);
        assert_eq!(walk(&mut gate, "-----+"), [U, U, U, U, U, H]);
    }

    #[test]
    fn only_failures_in_a_row_disprove() {
        let mut gate = Gate::new(2, 3, None);
        assert_eq!(
            walk(&mut gate, "+--+--+---"),
            [H, H, H, H, H, H, H, H, H, F]
        );
    }

    #[test]
    fn after_a_failure_only_successes_in_a_row_prove_again() {
        let mut gate = Gate::new(2, 3, Some(F));
        assert_eq!(walk(&mut gate, "+-+-++"), [F, F, F, F, F, H]);
    }

    #[test]
    fn a_restored_verdict_stands_until_probes_say_otherwise() {
        assert_eq!(walk(&mut Gate::new(2, 3, Some(H)), "--"), [H, H]);
        assert_eq!(walk(&mut Gate::new(2, 3, Some(H)), "---"), [H, H, F]);
        assert_eq!(walk(&mut Gate::new(2, 3, Some(F)), "+"), [F]);
    }

    #[test]
    fn bounds_of_one_act_at_once_and_zero_is_one() {
        assert_eq!(walk(&mut Gate::new(1, 1, None), "+-+-"), [H, F, H, F]);
        assert_eq!(walk(&mut Gate::new(0, 0, None), "+-+-"), [H, F, H, F]);
    }
}
