//! The priority of an instance, as keepalived arrives at it and as Kedge writes it.

use super::tracking::Weights;

/// A priority and how it came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Priority {
    /// While all is well.
    pub(super) healthy: i32,
    /// While nothing is.
    pub(super) unhealthy: i32,
    /// The setting.
    pub(super) what: String,
    /// Why it is another one than was written.
    pub(super) because: Option<String>,
}

/// The priority of an instance; `given` is what was written, if anything was.
pub(super) fn of(given: Option<&str>, starts_active: bool, weights: Weights) -> Priority {
    let number = given.and_then(|text| text.parse::<u8>().ok());
    let number = number.filter(|number| *number > 0);
    let (base, what) = match (number, given) {
        (Some(number), _) => (number, format!("priority {number}")),
        (None, Some(given)) => (DEFAULT, format!("priority {given}")),
        (None, None) if starts_active => (OWNER, "no priority, 255 with `state MASTER`".to_owned()),
        (None, None) => (DEFAULT, format!("priority {DEFAULT}, keepalived's default")),
    };
    if base == OWNER {
        let because =
            "254: in Kedge 255 is for the host that has the address by itself (KEDGE-VIP-0003)";
        return Priority {
            healthy: 254,
            unhealthy: 1,
            what,
            because: Some(because.to_owned()),
        };
    }
    let healthy = (i32::from(base) + weights.up).clamp(2, 254);
    let unhealthy = if weights == Weights::default() {
        1
    } else {
        (i32::from(base) + weights.down).clamp(1, healthy - 1)
    };
    let because = if given.is_some() && number.is_none() {
        Some(format!(
            "not 1 to 255: keepalived takes {DEFAULT}, and so does this"
        ))
    } else if weights.up > 0 {
        Some(format!(
            "{healthy}, because keepalived adds positive weights while all is well; Kedge takes \
             weights away while something fails"
        ))
    } else if base == 1 {
        Some("2, because Kedge keeps 1 for a host that is not healthy".to_owned())
    } else {
        None
    };
    Priority {
        healthy,
        unhealthy,
        what,
        because,
    }
}

const DEFAULT: u8 = 100;
const OWNER: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_priority_is_one_kedge_takes() {
        let weights = |up, down| Weights { up, down };
        for (given, starts_active, weights, healthy, unhealthy, as_written) in [
            (Some("150"), false, weights(0, 0), 150, 1, true),
            (Some("150"), true, weights(0, -60), 150, 90, true),
            (Some("101"), false, weights(2, 0), 103, 101, false),
            (Some("250"), false, weights(20, -253), 254, 1, false),
            (Some("2"), false, weights(0, 0), 2, 1, true),
            (Some("1"), false, weights(0, 0), 2, 1, false),
            (Some("255"), true, weights(5, -5), 254, 1, false),
            (None, false, weights(0, 0), 100, 1, true),
            (None, true, weights(0, 0), 254, 1, false),
            (Some("0"), true, weights(0, 0), 100, 1, false),
            (Some("400"), false, weights(0, 0), 100, 1, false),
            (
                Some("x"),
                false,
                weights(i32::MAX - 255, i32::MIN + 255),
                254,
                1,
                false,
            ),
        ] {
            let found = of(given, starts_active, weights);
            assert_eq!(found.healthy, healthy, "{found:?}");
            assert_eq!(found.unhealthy, unhealthy, "{found:?}");
            assert_eq!(found.because.is_none(), as_written, "{found:?}");
        }
    }
}
