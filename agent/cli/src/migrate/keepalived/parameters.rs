//! `$NAME=VALUE` and `${NAME}`.

use std::collections::BTreeMap;

/// The name and the value a line defines.
pub(super) fn definition(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix('$')?.split_once('=')?;
    is_name(name).then(|| (name, value.trim()))
}

/// Whether a line begins a definition of several lines; `@host` may stand in front.
pub(super) fn goes_on(line: &str) -> bool {
    let line = match line.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace).map_or("", |it| it.1),
        None => line,
    };
    line.ends_with('\\') && definition(line.trim_start()).is_some()
}

/// The line with the first parameter that somebody defined replaced; `None` when there is none.
pub(super) fn replaced(line: &str, parameters: &BTreeMap<String, String>) -> Option<String> {
    let mut from = 0;
    while let Some(found) = line.get(from..)?.find('$') {
        let at = from + found;
        let (before, rest) = line.split_at(at);
        let rest = rest.get(1..)?;
        let (name, after) = match rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or(("", "")),
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        let value = match name {
            "_HASH" => Some("#"),
            "_BANG" => Some("!"),
            name => parameters.get(name).map(String::as_str),
        };
        if let Some(value) = value {
            return Some(format!("{before}{value}{after}"));
        }
        from = at + 1;
    }
    None
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_need_braces_unless_space_follows() {
        let parameters = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (line, expected) in [
            ("priority $A", Some("priority 1")),
            ("10.0.0.${A}/24", Some("10.0.0.1/24")),
            ("10.0.0.$A/24", None),
            ("$B ${A}", Some("$B 1")),
            ("${B} ${", None),
            ("x$", None),
            ("c${_HASH}d", Some("c#d")),
        ] {
            assert_eq!(replaced(line, &parameters).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_definition_is_a_name_and_an_equals_sign() {
        assert_eq!(definition("$A=1 2"), Some(("A", "1 2")));
        assert_eq!(definition("$A="), Some(("A", "")));
        assert_eq!(definition("$1=x"), None);
        assert_eq!(definition("$A =x"), None);
        assert!(goes_on("@main $A= \\"));
        assert!(!goes_on("script x \\"));
    }
}
