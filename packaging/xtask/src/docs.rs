//! Generated documents: the program writes them about itself, this puts them into `docs/`.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use crate::run;

/// Writes `docs/reference/`, or fails when it differs.
pub fn generate(check: bool) -> anyhow::Result<()> {
    let root = run::root()?;
    let target = root.join("docs/reference");
    let fresh = std::env::temp_dir().join(format!("kedge-docs-{}", std::process::id()));
    fs::create_dir_all(&fresh)?;
    let outcome = write_and_compare(&fresh, &target, check);
    fs::remove_dir_all(&fresh)?;
    outcome?;
    broken_links(&root.join("docs"))
}

fn write_and_compare(fresh: &Path, target: &Path, check: bool) -> anyhow::Result<()> {
    let folder = fresh
        .to_str()
        .context("a temporary folder with an odd name")?;
    let mut generator = run::cargo(&[
        "run",
        "--quiet",
        "--package",
        "kedge-agent-cli",
        "--example",
        "reference",
        "--",
        folder,
    ])?;
    run::step("docs: generate", &mut generator)?;
    let wanted = listing(fresh)?;
    let present = if target.exists() {
        listing(target)?
    } else {
        Vec::new()
    };
    if check {
        let stale: Vec<&String> = wanted
            .iter()
            .chain(&present)
            .filter(|name| fs::read(fresh.join(name)).ok() != fs::read(target.join(name)).ok())
            .collect();
        if !stale.is_empty() {
            bail!("docs/reference differs from the program: {stale:?}; run `cargo xtask docs`");
        }
        return Ok(());
    }
    for name in present.iter().filter(|name| !wanted.contains(name)) {
        fs::remove_file(target.join(name))?;
    }
    for name in &wanted {
        let path = target.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(fresh.join(name), path)?;
    }
    println!("docs: {} generated files", wanted.len());
    Ok(())
}

/// The files below a folder, as paths relative to it.
fn listing(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                names.push(path.strip_prefix(folder)?.display().to_string());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Relative links in `docs/` that lead nowhere, and pages the table of contents forgets.
fn broken_links(docs: &Path) -> anyhow::Result<()> {
    let mut broken = Vec::new();
    let pages: Vec<String> = listing(docs)?
        .into_iter()
        .filter(|name| name.ends_with(".md"))
        .collect();
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).context("docs/SUMMARY.md")?;
    for page in &pages {
        if page != "SUMMARY.md" && !summary.contains(&format!("({page})")) {
            broken.push(format!("{page}: not in docs/SUMMARY.md"));
        }
        let text = fs::read_to_string(docs.join(page))?;
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = link.split('#').next().unwrap_or_default();
            let relative =
                !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:");
            if relative && !docs.join(folder).join(path).exists() {
                broken.push(format!("{page}: `{link}` leads nowhere"));
            }
        }
    }
    for line in &broken {
        println!("docs: {line}");
    }
    if broken.is_empty() {
        Ok(())
    } else {
        bail!("{} broken link(s) in docs/", broken.len())
    }
}
