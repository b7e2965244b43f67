//! Rules a glance at the files can check: sizes, names, where `unsafe` may stand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

const LONGEST: usize = 500;
const LARGEST_MEDIAN: usize = 200;
const NO_ROOM_FOR: &[&str] = &["utils.rs", "util.rs", "common.rs", "helpers.rs", "misc.rs"];
const GROUPS: &[&str] = &[
    "agent",
    "api",
    "appliance",
    "gateway",
    "manager",
    "packaging",
    "tests",
    "tunnel",
    "vip",
];

/// Every source file below `root`, in order.
pub fn sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for group in GROUPS {
        collect(&root.join(group), &mut sources)?;
    }
    sources.sort();
    Ok(sources)
}

/// Every finding in the source files below `root`.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let sources = sources(root)?;
    let mut findings = Vec::new();
    let mut lengths = Vec::new();
    for path in &sources {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let name = path
            .strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string();
        let file = path
            .file_name()
            .and_then(|file| file.to_str())
            .unwrap_or_default();
        if NO_ROOM_FOR.contains(&file) {
            findings.push(format!("{name}: a file is named after what it does"));
        }
        if is_test(&name) {
            continue;
        }
        let lines = text.lines().count();
        lengths.push(lines);
        if lines > LONGEST {
            findings.push(format!("{name}: {lines} lines, {LONGEST} is the end"));
        }
        if allows_unsafe(&text) && !name.starts_with("appliance/net/src/sys/") {
            findings.push(format!(
                "{name}: `unsafe` lives in appliance/net/src/sys alone"
            ));
        }
    }
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    if median > LARGEST_MEDIAN {
        findings.push(format!(
            "the median file has {median} lines, {LARGEST_MEDIAN} is the goal"
        ));
    }
    println!(
        "arch: {} production files, median {median} lines",
        lengths.len()
    );
    Ok(findings)
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                collect(&path, into)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

fn is_test(name: &str) -> bool {
    name.starts_with("tests/")
        || name.contains("/tests/")
        || name.ends_with("/tests.rs")
        || name.ends_with("_tests.rs")
}

/// Whether the file switches off the lint that forbids `unsafe`; the compiler sees to the rest.
fn allows_unsafe(text: &str) -> bool {
    ["allow", "expect", "warn"]
        .iter()
        .any(|level| text.contains(&format!("{level}({LINT}")))
}

const LINT: &str = "unsafe_code";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_lifts_the_ban_on_unsafe_is_seen() {
        assert!(allows_unsafe(&format!(
            "#![expect({LINT}, reason = \"x\")]"
        )));
        assert!(!allows_unsafe("#![expect(clippy::panic, reason = \"x\")]"));
    }

    #[test]
    fn tests_are_told_from_production() {
        assert!(is_test("tests/netns/src/lib.rs"));
        assert!(is_test("vip/proto/src/vrrp/tests.rs"));
        assert!(is_test("agent/cli/tests/commands.rs"));
        assert!(!is_test("agent/cli/src/main.rs"));
    }
}
