//! What a wish for the next certificate is worth: clones are told from lost answers.

use kedge_crd::host::Identity;

/// What a client shows when it asks for the next certificate.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The generation of its certificate.
    pub generation: u64,
    /// The serial of its certificate.
    pub serial: &'a str,
    /// What it calls this renewal, persisted before it asked.
    pub renewal_id: &'a str,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next generation.
    Renew,
    /// The answer was lost: the same certificate again.
    Repeat,
    /// The store is older than the certificate: accept, and go on from its generation.
    Repair,
    /// Somebody else has renewed with this identity.
    Conflict,
}

/// Compares what is shown with what is kept. The certificate was signed by our CA in each case.
#[must_use]
pub fn verdict(kept: &Identity, shown: Presented<'_>) -> Verdict {
    if shown.generation == kept.generation && shown.serial == kept.serial {
        Verdict::Renew
    } else if shown.generation.checked_add(1) == Some(kept.generation)
        && !kept.renewal_id.is_empty()
        && shown.renewal_id == kept.renewal_id
    {
        Verdict::Repeat
    } else if shown.generation > kept.generation {
        Verdict::Repair
    } else {
        Verdict::Conflict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_meeting_of_kept_and_shown_has_its_verdict() {
        let kept = |generation, serial: &str, renewal_id: &str| Identity {
            generation,
            serial: serial.to_owned(),
            renewal_id: renewal_id.to_owned(),
            ..Identity::default()
        };
        let shown = |generation, serial, renewal_id| Presented {
            generation,
            serial,
            renewal_id,
        };
        let cases = [
            (kept(5, "s5", "r5"), shown(5, "s5", "new"), Verdict::Renew),
            (kept(5, "s5", "r5"), shown(5, "s5", "r5"), Verdict::Renew),
            (kept(5, "s5", "r5"), shown(4, "s4", "r5"), Verdict::Repeat),
            (
                kept(5, "s5", "r5"),
                shown(4, "s4", "other"),
                Verdict::Conflict,
            ),
            (kept(5, "s5", ""), shown(4, "s4", ""), Verdict::Conflict),
            (kept(5, "s5", "r5"), shown(3, "s3", "r5"), Verdict::Conflict),
            (kept(5, "s5", "r5"), shown(5, "x", "r5"), Verdict::Conflict),
            (kept(5, "s5", "r5"), shown(6, "s6", "new"), Verdict::Repair),
            (
                kept(5, "s5", "r5"),
                shown(u64::MAX, "x", "r5"),
                Verdict::Repair,
            ),
        ];
        for (kept, shown, wanted) in cases {
            assert_eq!(verdict(&kept, shown), wanted, "{kept:?} {shown:?}");
        }
    }
}
