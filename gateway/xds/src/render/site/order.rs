//! Which of two requests that fit is the more specific one.

use std::cmp::{Ordering, Reverse};

use kedge_control::site::{Match, PathMatch};

/// Sorts what decides first before the rest; equals stay in their order.
///
/// The order of Gateway API (`HTTPRouteRule.matches`), which leaves open where regular expressions stand:
/// between exact paths and prefixes, the longest first, as with other gateways that are made of Envoy.
pub fn compare(one: &Match, other: &Match) -> Ordering {
    rank(one).cmp(&rank(other))
}

fn rank(matches: &Match) -> impl Ord {
    let (kind, length) = match &matches.path {
        PathMatch::Exact(_) => (0, 0),
        // A method of any service comes after every service, and before what is for all (`GRPCRouteRule.matches`).
        PathMatch::Regex(_) if matches.grpc => (2, 1),
        PathMatch::Regex(pattern) => (1, pattern.len()),
        PathMatch::Prefix(path) => (2, path.trim_end_matches('/').len()),
    };
    (
        kind,
        Reverse(length),
        matches.method.is_none(),
        Reverse(matches.headers.len()),
        Reverse(matches.query.len()),
    )
}

#[cfg(test)]
mod tests {
    use kedge_control::site::ValueMatch;

    use super::*;

    #[test]
    fn what_is_more_specific_comes_first_and_equals_stay() {
        let of = |path: PathMatch, method: bool, headers: usize, query: usize| {
            let values = |count: usize| {
                let value = || ValueMatch::Exact(String::new());
                (0..count).map(|name| (name.to_string(), value())).collect()
            };
            Match {
                path,
                method: method.then(|| "GET".to_owned()),
                headers: values(headers),
                query: values(query),
                grpc: false,
            }
        };
        let prefix = |path: &str| PathMatch::Prefix(path.to_owned());
        let exact = |path: &str| PathMatch::Exact(path.to_owned());
        let regex = |path: &str| PathMatch::Regex(path.to_owned());
        let sorted = [
            of(exact("/b"), true, 0, 0),
            of(exact("/a/b"), false, 0, 0),
            of(regex("/a/.*"), false, 0, 0),
            of(regex("/.*"), true, 0, 0),
            of(prefix("/abc"), false, 0, 0),
            of(prefix("/ab/"), true, 0, 0),
            of(prefix("/ab"), false, 2, 0),
            of(prefix("/ab/"), false, 1, 2),
            of(prefix("/ab"), false, 1, 1),
            of(prefix("/ab/"), false, 0, 0),
            of(prefix("/ac"), false, 0, 0),
            of(prefix("/"), true, 9, 9),
            of(prefix("/"), false, 0, 0),
        ];
        let mut reversed: Vec<Match> = sorted.iter().rev().cloned().collect();
        // The two that are equal change their places with the rest.
        reversed.swap(2, 3);
        reversed.sort_by(compare);
        assert_eq!(reversed, sorted);
    }
}
