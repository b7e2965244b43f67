//! Generated documents: the program writes them about itself, this puts them into `docs/`.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use crate::{
    generated::{Generated, listing},
    run,
};

/// Writes `docs/reference/`, or fails when it differs.
pub fn generate(check: bool) -> anyhow::Result<()> {
    REFERENCE.settle(check)?;
    broken_links(&run::root()?.join("docs"))
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

const REFERENCE: Generated = Generated {
    task: "docs",
    example: "reference",
    target: "docs/reference",
};
