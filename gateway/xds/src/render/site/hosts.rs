//! Names of sites: which one fits which, and for which there is a certificate.

use std::collections::BTreeMap;

use kedge_control::site::{Certificate, Site};

/// Whether every name that `narrow` stands for is one that `wide` stands for. A `*` stands for any
/// number of labels (RFC 4592 section 2.2.1), as it does for Envoy.
pub fn covers(wide: &str, narrow: &str) -> bool {
    wide == narrow || wide == "*" || wildcard(wide).is_some_and(|suffix| narrow.ends_with(suffix))
}

/// What a name's last labels are, with the dot before them, for one that begins with `*`.
fn wildcard(name: &str) -> Option<&str> {
    name.strip_prefix('*').filter(|suffix| !suffix.is_empty())
}

/// Of these names the one that fits a name best: itself, or the longest wildcard.
pub fn closest<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let names = names.filter(|one| covers(one, name));
    names.max_by_key(|one| one.len())
}

/// The names of a site that it has certificates for, each with its own. Of two the one that is for fewer
/// names is taken, or else the first.
pub fn secured(site: &Site) -> BTreeMap<&str, &Certificate> {
    let mut secured: BTreeMap<&str, (usize, &Certificate)> = BTreeMap::new();
    for certificate in &site.certificates {
        for of in &certificate.hosts {
            for host in &site.hosts {
                let name = if covers(of, host) {
                    host
                } else if covers(host, of) {
                    of
                } else {
                    continue;
                };
                let best = secured.entry(name).or_insert((of.len(), certificate));
                if of.len() > best.0 {
                    *best = (of.len(), certificate);
                }
            }
        }
    }
    let secured = secured.into_iter();
    secured.map(|(name, (_, best))| (name, best)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_for_what_ends_like_it() {
        for (wide, narrow) in [
            ("*", "a.example"),
            ("*", "*.example"),
            ("*.example", "a.example"),
            ("*.example", "b.a.example"),
            ("*.example", "*.a.example"),
            ("*.example", "*.example"),
            ("a.example", "a.example"),
        ] {
            assert!(covers(wide, narrow), "{wide} {narrow}");
        }
        for (wide, narrow) in [
            ("*.example", "example"),
            ("*.example", "*"),
            ("*.a.example", "*.example"),
            ("*.example", "aexample"),
            ("a.example", "*.example"),
        ] {
            assert!(!covers(wide, narrow), "{wide} {narrow}");
        }
        let names = ["*", "*.example", "*.a.example", "b.example"];
        for (name, best) in [
            ("x.a.example", "*.a.example"),
            ("b.example", "b.example"),
            ("c.example", "*.example"),
            ("else", "*"),
        ] {
            assert_eq!(closest(names.into_iter(), name), Some(best));
        }
        assert_eq!(closest(["a"].into_iter(), "b"), None);
    }
}
