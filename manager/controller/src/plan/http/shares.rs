//! One pool of several backends, for connections that are passed through: nobody reads a request that could be
//! led to the one or the other, so that the members of each have its share of the connections.

use kedge_control::frontend::{Pool, PoolMember};

/// The pool of that name, with the members of all these and with their shares. What is said of balancing, checks
/// and limits is the first one's.
pub fn share(name: String, parts: Vec<(Pool, u16)>) -> Option<Pool> {
    let each = |(pool, weight): &(Pool, u16)| match pool.members.len() {
        0 => 0.0,
        members => f64::from(*weight) / f64::from(u32::try_from(members).unwrap_or(u32::MAX)),
    };
    let most = parts.iter().map(each).fold(0.0, f64::max);
    let mut members: Vec<PoolMember> = Vec::new();
    for part in &parts {
        let weight = weight(each(part), most);
        let own = part.0.members.iter();
        members.extend(own.map(|member| PoolMember {
            weight,
            ..member.clone()
        }));
    }
    let (first, _) = parts.into_iter().next()?;
    Some(Pool {
        name,
        members,
        ..first
    })
}

/// A member's weight, where the heaviest has the most there is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 1 and 128"
)]
fn weight(own: f64, most: f64) -> u8 {
    match most > 0.0 {
        true => (own / most * MOST).round().clamp(1.0, MOST) as u8,
        false => 1,
    }
}

/// The most that a member of a pool may have.
const MOST: f64 = 128.0;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;

    fn pool(first: u8, members: u8) -> Pool {
        let member = |at: u8| PoolMember {
            host: format!("host-{}", first + at),
            address: [198, 18, 0, first + at].into(),
            port: NonZeroU16::MIN,
            weight: 1,
            draining: at == 0,
        };
        Pool {
            name: format!("pool-{first}"),
            members: (0..members).map(member).collect(),
            ..Pool::default()
        }
    }

    #[test]
    fn one_member_of_ten_percent_and_two_of_ninety() {
        let shared = share("all".to_owned(), vec![(pool(0, 1), 10), (pool(50, 2), 90)]).unwrap();
        let weights: Vec<u8> = shared.members.iter().map(|it| it.weight).collect();
        assert_eq!((&*shared.name, &weights[..]), ("all", &[28, 128, 128][..]));
        assert!(shared.members[0].draining && !shared.members[2].draining);
    }

    proptest! {
        #[test]
        fn each_has_its_share_within_a_hundredth(
            (one, other) in (1_u8..20, 1_u8..20),
            (own, others) in (1_u16..=10, 1_u16..=10),
        ) {
            let shared = share("all".to_owned(), vec![(pool(0, one), own), (pool(100, other), others)]);
            let all = shared.unwrap().members;
            let sum = |all: &[PoolMember]| all.iter().map(|it| f64::from(it.weight)).sum::<f64>();
            let share = sum(&all[..usize::from(one)]) / sum(&all);
            let wanted = f64::from(own) / f64::from(own + others);
            // A member has at least one of 128, however many others share the rest.
            prop_assert!((share - wanted).abs() < 0.1, "{share} of {wanted}");
        }
    }

    #[test]
    fn a_backend_without_members_has_no_share() {
        let shared = share("all".to_owned(), vec![(pool(0, 0), 1), (pool(1, 1), 1)]).unwrap();
        assert_eq!(shared.members.len(), 1);
        assert_eq!(shared.members[0].weight, 128);
        assert_eq!(share("none".to_owned(), Vec::new()), None);
    }
}
