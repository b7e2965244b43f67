//! Did you mean …?

/// The candidate a mistyped word most likely stands for.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    candidates
        .into_iter()
        .map(|candidate| (likeness(&word, &plain(candidate)), candidate))
        .filter(|(likeness, _)| *likeness >= LIKE_ENOUGH)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

fn likeness(word: &str, candidate: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(word, candidate);
    // `interval` for `advert_interval`, `address` for `addresses`: a whole part is a strong hint.
    let part = candidate.split('_').any(|part| part == word)
        || (word.len() >= 4 && (candidate.contains(word) || word.contains(candidate)));
    let start = if part { PART } else { 0.0 };
    edits.max(start + edits / 10.0)
}

/// `listenPort`, `listen-port` and `Listen_Port` are the same mistake.
fn plain(word: &str) -> String {
    let mut plain = String::with_capacity(word.len() + 4);
    let mut after_lower = false;
    for c in word.chars() {
        if c.is_ascii_uppercase() && after_lower {
            plain.push('_');
        }
        after_lower = c.is_ascii_lowercase();
        plain.push(if c == '-' || c == ' ' {
            '_'
        } else {
            c.to_ascii_lowercase()
        });
    }
    plain
}

const LIKE_ENOUGH: f64 = 0.5;
const PART: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_case_and_parts_are_recognised_and_strangers_are_not() {
        let keys = ["addresses", "vrid", "priority", "advert_interval", "health"];
        for (typo, meant) in [
            ("vird", Some("vrid")),
            ("adress", Some("addresses")),
            ("advertInterval", Some("advert_interval")),
            ("advert-interval", Some("advert_interval")),
            ("interval", Some("advert_interval")),
            ("PRIORITY", Some("priority")),
            ("helth", Some("health")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(closest(typo, keys), meant, "{typo}");
        }
    }
}
