//! What a host must say of itself for a token to admit it.

use std::collections::BTreeMap;

use kedge_control::{enrol::Facts, local::BoundTo};
use regex::{Regex, RegexBuilder};

use crate::store::key::is_subdomain;

/// Why a token cannot be bound like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A value is empty, or longer than any of its kind.
    #[error("`{0}` must have 1 to {MOST} characters")]
    Length(&'static str),
    /// No MAC address.
    #[error("`mac` must be six bytes, such as 52:54:00:12:34:56")]
    Mac,
    /// No regular expression.
    #[error("`hostnameRegex` is no regular expression: {0}")]
    Regex(String),
    /// No label.
    #[error("`{0}` is no label of Kubernetes")]
    Label(String),
}

/// The same, spelt as it is compared.
///
/// # Errors
///
/// No host could ever fit, or not as it was meant.
pub fn parse(mut bound: BoundTo) -> Result<BoundTo, Unfit> {
    let texts = [
        ("machineID", &mut bound.machine_id),
        ("serial", &mut bound.serial),
        ("hostnameRegex", &mut bound.hostname_regex),
    ];
    for (name, text) in texts {
        let Some(text) = text else { continue };
        *text = text.trim().to_owned();
        if !(1..=MOST).contains(&text.len()) {
            return Err(Unfit::Length(name));
        }
    }
    if let Some(mac) = &bound.mac {
        bound.mac = Some(parse_mac(mac).ok_or(Unfit::Mac)?);
    }
    if let Some(pattern) = &bound.hostname_regex {
        // Alone first: `a)|(b` would be one only within the brackets it is put in.
        let alone = RegexBuilder::new(pattern).size_limit(SIZE).build();
        let whole = alone.and_then(|_| whole(pattern));
        whole.map_err(|error| Unfit::Regex(last_line(&error.to_string())))?;
    }
    Ok(bound)
}

/// What of a host is not as the token wants it. The wanted value is not told: whoever knew it
/// could claim it.
#[must_use]
pub fn differs(bound: &BoundTo, facts: &Facts) -> Option<&'static str> {
    let fits = |wanted: &Option<String>, is: &dyn Fn(&str) -> bool| {
        wanted.as_ref().is_none_or(|wanted| is(wanted))
    };
    let has_mac = |wanted: &str| {
        let macs = facts.macs.iter().take(MACS);
        parse_mac(wanted).is_some_and(|wanted| {
            macs.filter_map(|mac| parse_mac(mac))
                .any(|mac| mac == wanted)
        })
    };
    let is_named = |pattern: &str| {
        facts.hostname.len() <= MOST
            && whole(pattern).is_ok_and(|pattern| pattern.is_match(&facts.hostname))
    };
    let rules = [
        (
            "machine id",
            fits(&bound.machine_id, &|wanted| wanted == facts.machine_id),
        ),
        (
            "serial number",
            fits(&bound.serial, &|wanted| wanted == facts.serial),
        ),
        ("MAC address", fits(&bound.mac, &has_mac)),
        ("host name", fits(&bound.hostname_regex, &is_named)),
    ];
    let unmet = rules.into_iter().find(|(_, fits)| !fits);
    unmet.map(|(what, _)| what)
}

/// Looks whether an API server would take the labels.
///
/// # Errors
///
/// It would not.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Unfit> {
    let unfit = labels.iter().find(|(key, value)| {
        let (prefix, name) = key.split_once('/').unwrap_or(("a", key));
        !(is_subdomain(prefix) && is_value(name) && (value.is_empty() || is_value(value)))
    });
    unfit.map_or(Ok(()), |(key, value)| {
        let text: String = format!("{key}={value}").escape_debug().take(200).collect();
        Err(Unfit::Label(text))
    })
}

fn is_value(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || b"-_.".contains(byte))
}

/// Six bytes, however they are written.
fn parse_mac(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.trim().split([':', '-']).collect();
    let is_byte =
        |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (parts.len() == 6 && parts.iter().all(is_byte)).then(|| parts.join(":").to_ascii_lowercase())
}

fn whole(pattern: &str) -> Result<Regex, regex::Error> {
    let pattern = format!("^(?:{pattern})$");
    RegexBuilder::new(&pattern).size_limit(SIZE).build()
}

/// The library draws a picture of several lines; the last says what is wrong.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ")
        .escape_debug()
        .take(200)
        .collect()
}

/// How long a value may be.
const MOST: usize = 253;
/// How many network cards are looked at.
const MACS: usize = 64;
/// How large a compiled expression may be.
const SIZE: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            hostname: "edge-7.shop".to_owned(),
            machine_id: "4d".to_owned(),
            serial: "XK-1".to_owned(),
            macs: vec![
                "52:54:00:aa:bb:01".to_owned(),
                "52:54:00:aa:bb:02".to_owned(),
            ],
            ..Facts::default()
        }
    }

    #[test]
    fn every_value_that_is_asked_for_must_be_said() {
        let none = BoundTo::default;
        let some = |text: &str| Some(text.to_owned());
        let host = |pattern: &str| BoundTo {
            hostname_regex: some(pattern),
            ..none()
        };
        let cases = [
            (none(), None),
            (
                BoundTo {
                    machine_id: some("4d"),
                    ..none()
                },
                None,
            ),
            (
                BoundTo {
                    machine_id: some("4e"),
                    ..none()
                },
                Some("machine id"),
            ),
            (
                BoundTo {
                    serial: some(" XK-1 "),
                    ..none()
                },
                None,
            ),
            (
                BoundTo {
                    serial: some("xk-1"),
                    ..none()
                },
                Some("serial number"),
            ),
            (
                BoundTo {
                    mac: some("52-54-00-AA-BB-02"),
                    ..none()
                },
                None,
            ),
            (
                BoundTo {
                    mac: some("52:54:00:aa:bb:03"),
                    ..none()
                },
                Some("MAC address"),
            ),
            (host("edge-[0-9]+\\.shop"), None),
            (host("a|edge-7.shop"), None),
            (host(" edge-7.shop\n"), None),
            // The whole name, or none of it.
            (host("edge-7"), Some("host name")),
            (host("7.shop"), Some("host name")),
            (host("a|edge"), Some("host name")),
            // All of it: one that fits does not make up for another.
            (
                BoundTo {
                    serial: some("XK-1"),
                    mac: some("52:54:00:aa:bb:03"),
                    ..none()
                },
                Some("MAC address"),
            ),
        ];
        for (bound, wanted) in cases {
            let bound = parse(bound).unwrap();
            assert_eq!(differs(&bound, &facts()), wanted, "{bound:?}");
        }
        // A host that says nothing fits nothing.
        for bound in [
            BoundTo {
                machine_id: some("4d"),
                ..none()
            },
            BoundTo {
                serial: some("XK-1"),
                ..none()
            },
            BoundTo {
                mac: some("52:54:00:aa:bb:01"),
                ..none()
            },
            host("edge.*"),
        ] {
            assert!(differs(&bound, &Facts::default()).is_some(), "{bound:?}");
        }
    }

    #[test]
    fn what_no_host_could_fit_is_no_rule() {
        let none = BoundTo::default;
        let some = |text: &str| Some(text.to_owned());
        let long = "a".repeat(254);
        for bound in [
            BoundTo {
                machine_id: some(" "),
                ..none()
            },
            BoundTo {
                serial: some(&long),
                ..none()
            },
            BoundTo {
                mac: some("52:54:00:aa:bb"),
                ..none()
            },
            BoundTo {
                mac: some("52:54:00:aa:bb:0g"),
                ..none()
            },
            BoundTo {
                hostname_regex: some("edge\\ "),
                ..none()
            },
            BoundTo {
                hostname_regex: some("("),
                ..none()
            },
            BoundTo {
                hostname_regex: some("a)|(b"),
                ..none()
            },
            BoundTo {
                hostname_regex: some("(?x) edge # all"),
                ..none()
            },
            BoundTo {
                hostname_regex: some("(a{1000}){1000}"),
                ..none()
            },
        ] {
            assert!(parse(bound.clone()).is_err(), "{bound:?}");
        }
    }

    #[test]
    fn labels_are_what_an_api_server_takes() {
        let check = |key: &str, value: &str| {
            check_labels(&[(key.to_owned(), value.to_owned())].into()).is_ok()
        };
        for (key, value) in [
            ("site", "store-14"),
            ("example.org/Rack_1", "A.b"),
            ("a", ""),
        ] {
            assert!(check(key, value), "{key}={value}");
        }
        for (key, value) in [
            ("", "a"),
            ("/a", "b"),
            ("a/", "b"),
            ("a/b/c", "d"),
            ("a", "-"),
            ("a b", "c"),
            ("a", "b\n"),
        ] {
            assert!(!check(key, value), "{key}={value}");
        }
    }
}
