//! The CustomResourceDefinitions: the types in `api/crd` write them, this keeps them in
//! `packaging/kubernetes/crds`, which is a folder of the chart: one copy for everybody.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use crate::run;

/// Writes the definitions, or fails when they differ.
pub fn generate(check: bool) -> anyhow::Result<()> {
    let target = run::root()?.join("packaging/kubernetes/crds");
    let fresh = std::env::temp_dir().join(format!("kedge-crds-{}", std::process::id()));
    fs::create_dir_all(&fresh)?;
    let outcome = write(&fresh).and_then(|()| settle(&fresh, &target, check));
    fs::remove_dir_all(&fresh)?;
    outcome
}

fn write(fresh: &Path) -> anyhow::Result<()> {
    let folder = fresh
        .to_str()
        .context("a temporary folder with an odd name")?;
    let mut generator = run::cargo(&[
        "run",
        "--quiet",
        "--package",
        "kedge-crd",
        "--example",
        "crds",
        "--",
        folder,
    ])?;
    run::step("crds: generate", &mut generator)
}

fn settle(fresh: &Path, target: &Path, check: bool) -> anyhow::Result<()> {
    let wanted = names(fresh)?;
    let present = if target.exists() {
        names(target)?
    } else {
        Vec::new()
    };
    if check {
        let all = wanted.iter().chain(&present);
        let stale: Vec<&String> = all
            .filter(|name| fs::read(fresh.join(name)).ok() != fs::read(target.join(name)).ok())
            .collect();
        if !stale.is_empty() {
            bail!("packaging/kubernetes/crds differs: {stale:?}; run `cargo xtask crds`");
        }
        return Ok(());
    }
    fs::create_dir_all(target)?;
    for name in present.iter().filter(|name| !wanted.contains(name)) {
        fs::remove_file(target.join(name))?;
    }
    for name in &wanted {
        fs::copy(fresh.join(name), target.join(name))?;
    }
    println!("crds: {} definitions", wanted.len());
    Ok(())
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
