//! What is linked into the executable: a CycloneDX document, and the texts of the licences.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::compile::Edition;

/// A crate that is linked in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Component {
    name: String,
    version: String,
    licence: String,
    /// SHA-256 of what the registry gave; `None` for our own.
    checksum: Option<String>,
    sources: PathBuf,
}

/// Everything that is linked into an edition for that target.
///
/// # Errors
///
/// cargo does not answer.
pub fn components(root: &Path, target: &str, edition: Edition) -> anyhow::Result<Vec<Component>> {
    let mut tree = vec!["tree", "--locked", "--package", "kedge-agent-cli"];
    tree.extend(["--target", target, "--edges", "normal"]);
    tree.extend(["--prefix", "none", "--format", "{p}"]);
    tree.extend(edition.features());
    let listed = cargo(root, &tree)?;
    let listed = String::from_utf8(listed)?;
    let linked: BTreeSet<(&str, &str)> = listed
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let metadata = cargo(root, &["metadata", "--format-version", "1", "--locked"])?;
    let metadata: Value = serde_json::from_slice(&metadata)?;
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock"))?);
    let mut all = Vec::new();
    for package in metadata
        .get("packages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let text = |key: &str| {
            package
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (name, version) = (text("name"), text("version"));
        if !linked.contains(&(name.as_str(), version.as_str())) {
            continue;
        }
        let sources = PathBuf::from(text("manifest_path"));
        let sources = sources.parent().context("a manifest in no folder")?;
        all.push(Component {
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            licence: text("license").replace('/', " OR "),
            sources: sources.to_owned(),
            name,
            version,
        });
    }
    all.sort();
    ensure!(all.len() == linked.len(), "cargo's lists differ");
    Ok(all)
}

/// The document.
#[must_use]
pub fn cyclonedx(components: &[Component], version: &str, epoch: u64) -> String {
    let parts: Vec<Value> = components
        .iter()
        .map(|it| {
            let purl = format!("pkg:cargo/{}@{}", it.name, it.version);
            let mut part = json!({
                "type": "library", "bom-ref": purl, "name": it.name, "version": it.version,
                "licenses": [{"expression": it.licence}],
            });
            // Our own have no place in a registry.
            if let (Some(sum), Some(part)) = (&it.checksum, part.as_object_mut()) {
                part.insert("purl".into(), purl.into());
                let sums = json!([{"alg": "SHA-256", "content": sum}]);
                part.insert("hashes".into(), sums);
            }
            part
        })
        .collect();
    let at = i64::try_from(epoch)
        .ok()
        .and_then(|it| Timestamp::from_second(it).ok());
    let document = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": at.unwrap_or_default().to_string(),
            "component": {
                "type": "application", "bom-ref": "kedge", "name": "kedge", "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": parts,
    });
    format!("{document:#}\n")
}

/// The texts of their licences, each once.
///
/// # Errors
///
/// Sources cannot be read.
pub fn licences(components: &[Component]) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, Vec<&Component>> = BTreeMap::new();
    for component in components.iter().filter(|it| it.checksum.is_some()) {
        for entry in fs::read_dir(&component.sources)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_uppercase();
            let is_one = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
            if entry.path().is_file() && is_one.iter().any(|it| name.starts_with(it)) {
                let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
                texts
                    .entry(text.trim().to_owned())
                    .or_default()
                    .push(component);
            }
        }
    }
    let mut out = String::from("Licences of what is linked into kedge.\n\n");
    for component in components.iter().filter(|it| it.checksum.is_some()) {
        let Component {
            name,
            version,
            licence,
            ..
        } = component;
        out.push_str(&format!("{name} {version}: {licence}\n"));
    }
    for (text, of) in texts {
        let of: BTreeSet<String> = of
            .iter()
            .map(|it| format!("{} {}", it.name, it.version))
            .collect();
        let of: Vec<String> = of.into_iter().collect();
        out.push_str(&format!(
            "\n{}\n{}:\n\n{text}\n",
            "=".repeat(80),
            of.join(", ")
        ));
    }
    Ok(out)
}

/// What the registry gave, by name and version, as the lock file has it.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut all = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name"), value("version"), value("checksum"))
        {
            all.insert((name, version), sum);
        }
    }
    all
}

fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()?;
    ensure!(
        output.status.success(),
        "cargo {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
