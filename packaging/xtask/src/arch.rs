//! The check of the map: which crates there are, where they live, which arrows are allowed.
//!
//! `map.rs` is the map. A crate that is not on it, lives elsewhere or draws another arrow fails
//! the build; a new arrow is an ADR first.

mod clauses;
mod files;
mod map;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use crate::run;

/// Checks everything and prints each finding.
pub fn check() -> anyhow::Result<()> {
    let root = run::root()?;
    let metadata = MetadataCommand::new().current_dir(&root).no_deps().exec()?;
    let mut findings = Vec::new();
    let ours: BTreeSet<&str> = map::ROOMS.iter().map(|room| room.name).collect();

    for package in &metadata.packages {
        let Some(room) = map::ROOMS
            .iter()
            .find(|room| room.name == package.name.as_str())
        else {
            findings.push(format!(
                "{}: not on the map (packaging/xtask/src/arch/map.rs)",
                package.name
            ));
            continue;
        };
        let folder = package
            .manifest_path
            .parent()
            .map(|path| path.as_str())
            .unwrap_or_default();
        if !folder.ends_with(&format!("/{}", room.path)) {
            findings.push(format!(
                "{}: lives in {folder}, the map says {}",
                room.name, room.path
            ));
        }
        for (name, development) in dependencies(package) {
            if development {
                continue;
            }
            if ours.contains(name.as_str()) {
                if !room.sees.contains(&name.as_str()) {
                    findings.push(format!("{} → {name}: no such arrow on the map", room.name));
                }
            } else if let Some(why) = forbidden(room, &name) {
                findings.push(format!("{} → {name}: {why}", room.name));
            }
        }
    }
    findings.extend(cycles());
    findings.extend(files::check(&root)?);
    findings.extend(clauses::check(&root)?);

    for finding in &findings {
        println!("arch: {finding}");
    }
    if !findings.is_empty() {
        bail!("{} finding(s); the map is ARCHITECTURE.md", findings.len());
    }
    println!(
        "arch: {} crates, every arrow on the map",
        metadata.packages.len()
    );
    Ok(())
}

/// Dependencies by name, and whether they are for tests alone.
fn dependencies(package: &Package) -> BTreeMap<String, bool> {
    let mut all = BTreeMap::new();
    for dependency in &package.dependencies {
        let development = dependency.kind == DependencyKind::Development;
        let known = all.entry(dependency.name.clone()).or_insert(true);
        *known = *known && development;
    }
    all
}

/// Why `room` may not use the foreign crate `name`, if it may not.
fn forbidden(room: &map::Room, name: &str) -> Option<&'static str> {
    if room.pure && map::IMPURE.contains(&name) {
        return Some("a pure crate touches no runtime, socket, file, clock or randomness");
    }
    map::RESERVED
        .iter()
        .find(|reserved| reserved.crates.contains(&name) && !reserved.rooms.contains(&room.name))
        .map(|reserved| reserved.why)
}

/// Circles in the map itself: cargo would refuse them later, with a worse message.
fn cycles() -> Vec<String> {
    let mut findings = Vec::new();
    for room in map::ROOMS {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> = room.sees.to_vec();
        while let Some(name) = open.pop() {
            if name == room.name {
                findings.push(format!("{name}: the map has a circle"));
                break;
            }
            if seen.insert(name) {
                let next = map::ROOMS.iter().find(|other| other.name == name);
                open.extend(next.map(|other| other.sees).unwrap_or_default());
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_no_circle_and_names_only_itself() {
        assert_eq!(cycles(), Vec::<String>::new());
        let names: BTreeSet<&str> = map::ROOMS.iter().map(|room| room.name).collect();
        assert_eq!(names.len(), map::ROOMS.len(), "a name stands twice");
        for room in map::ROOMS {
            for seen in room.sees {
                assert!(
                    names.contains(seen),
                    "{} sees {seen}, which is no room",
                    room.name
                );
            }
        }
    }

    #[test]
    fn the_manager_sees_no_edge_crate_and_cores_see_no_shell() {
        let sees = |name: &str| {
            map::ROOMS
                .iter()
                .find(|room| room.name == name)
                .map(|room| room.sees)
                .unwrap_or(&[])
        };
        for edge in [
            "kedge-net",
            "kedge-host",
            "kedge-vip-speaker",
            "kedge-tunnel-device",
        ] {
            assert!(!sees("kedge-manager-controller").contains(&edge));
            assert!(!sees("kedge-vip-proto").contains(&edge));
            assert!(!sees("kedge-tunnel-proto").contains(&edge));
        }
    }

    #[test]
    fn a_pure_crate_with_a_runtime_is_found() {
        let room = map::ROOMS
            .iter()
            .find(|room| room.name == "kedge-vip-proto");
        assert!(room.is_some_and(|room| forbidden(room, "tokio").is_some()));
        let manager = map::ROOMS
            .iter()
            .find(|room| room.name == "kedge-manager-controller");
        assert!(manager.is_some_and(|room| forbidden(room, "rtnetlink").is_some()));
        assert!(manager.is_some_and(|room| forbidden(room, "kube").is_none()));
        let kinds = map::ROOMS.iter().find(|room| room.name == "kedge-crd");
        assert!(kinds.is_some_and(|room| forbidden(room, "kube").is_some()));
        assert!(kinds.is_some_and(|room| forbidden(room, "kube-cel").is_none()));
        assert!(manager.is_some_and(|room| forbidden(room, "kube-cel").is_some()));
    }
}
