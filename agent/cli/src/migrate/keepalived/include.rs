//! Which files an `include` means.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files a pattern names, in order; relative ones are looked for in `folder`. At most
/// [`MOST`].
pub(super) fn files(pattern: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pattern in alternatives(pattern) {
        let mut paths = vec![if pattern.starts_with('/') {
            PathBuf::from("/")
        } else {
            folder.to_owned()
        }];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            paths = step(&paths, part);
        }
        found.extend(paths.into_iter().filter(|path| path.is_file()));
        found.truncate(MOST);
    }
    found
}

/// Whether a pattern may rightly name no file.
pub(super) fn is_wild(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

fn step(paths: &[PathBuf], part: &str) -> Vec<PathBuf> {
    if !is_wild(part) {
        return paths.iter().map(|path| path.join(part)).collect();
    }
    let pattern: Vec<char> = part.chars().collect();
    let mut found = Vec::new();
    for folder in paths {
        let entries = fs::read_dir(super::lines::or_here(folder))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .take(MOST_ENTRIES)
            .filter_map(|entry| entry.file_name().into_string().ok())
            // As a shell: what is hidden is named only by a pattern that says so.
            .filter(|name| !name.starts_with('.') || part.starts_with('.'))
            .filter(|name| fits(&pattern, &name.chars().collect::<Vec<_>>()))
            .collect();
        names.sort();
        found.extend(names.into_iter().map(|name| folder.join(name)));
        found.truncate(MOST);
    }
    found
}

/// `*`, `?` and `[…]` against a name. Remembers one `*` alone, so that no pattern takes long.
fn fits(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = name.get(n) {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(pattern.get(p..).unwrap_or_default(), *c),
            Some(other) if other == c => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((at, from))) => {
                star = Some((at, from + 1));
                p = at + 1;
                n = from + 1;
            }
            (None, None) => return false,
        }
    }
    pattern.iter().skip(p).all(|rest| *rest == '*')
}

/// How long the `[…]` is in front, if it takes this character.
fn class(pattern: &[char], c: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    // A `]` in front is one of the characters.
    let end = pattern.iter().skip(first + 1).position(|one| *one == ']')? + first + 1;
    let inside = pattern.get(first..end)?;
    let mut taken = false;
    let mut at = 0;
    while let Some(low) = inside.get(at) {
        match (inside.get(at + 1), inside.get(at + 2)) {
            (Some('-'), Some(high)) => {
                taken |= (*low..=*high).contains(&c);
                at += 3;
            }
            _ => {
                taken |= *low == c;
                at += 1;
            }
        }
    }
    (taken != negated).then_some(end + 1)
}

/// `{a,b}` written out.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut waiting = vec![pattern.to_owned()];
    let mut done = Vec::new();
    while let Some(pattern) = waiting.pop() {
        match split_braces(&pattern) {
            Some(parts) if waiting.len() + done.len() + parts.len() <= MOST => {
                waiting.extend(parts.into_iter().rev());
            }
            _ => done.push(pattern),
        }
    }
    done
}

/// The first `{…}` replaced by each of its alternatives.
fn split_braces(pattern: &str) -> Option<Vec<String>> {
    let open = pattern.find('{')?;
    let (front, rest) = (pattern.get(..open)?, pattern.get(open + 1..)?);
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '}' if depth == 0 => {
                let back = rest.get(at + 1..)?;
                let whole = parts.iter().map(|part| format!("{front}{part}{back}"));
                return Some(whole.collect());
            }
            ',' if depth == 0 => parts.push(String::new()),
            c => {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                parts.last_mut()?.push(c);
            }
        }
    }
    None
}

/// More files than any configuration includes.
const MOST: usize = 256;
/// More entries than any folder of configuration has.
const MOST_ENTRIES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_a_shells() {
        let fits = |pattern: &str, name: &str| {
            fits(
                &pattern.chars().collect::<Vec<_>>(),
                &name.chars().collect::<Vec<_>>(),
            )
        };
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a*b*c", "aXbYbZc", true),
            ("?.conf", "ab.conf", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[", "[", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        let long = "*a".repeat(200);
        assert!(!fits(&long, &"a".repeat(199)), "and takes no time");
    }

    #[test]
    fn braces_are_alternatives() {
        assert_eq!(
            alternatives("{foo/{,cat,dog},bar}"),
            ["foo/", "foo/cat", "foo/dog", "bar"]
                .iter()
                .map(|part| (*part).to_owned())
                .collect::<Vec<_>>()
        );
        assert_eq!(alternatives("a}b{"), ["a}b{"]);
        assert!(alternatives(&"{a,b}".repeat(60)).len() <= MOST);
    }

    #[test]
    fn files_come_in_order_and_folders_do_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("d/sub.conf")).unwrap();
        for name in ["d/b.conf", "d/a.conf", "d/.hidden.conf", "d/c.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let found = files("d/*.conf", dir.path());
        assert_eq!(
            found,
            [dir.path().join("d/a.conf"), dir.path().join("d/b.conf")]
        );
        assert!(files("none.conf", dir.path()).is_empty());
    }
}
