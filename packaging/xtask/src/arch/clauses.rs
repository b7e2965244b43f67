//! The clause tables in `docs/rfc/`: what they name as a proof has to be there.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Context as _;

use super::files;

/// Rows without a proof, tests that nobody wrote or that have another name by now, and files that are
/// not there.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut there = There::default();
    for source in files::sources(root)? {
        let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
        let name = source.strip_prefix(root).unwrap_or(&source);
        there.files.insert(name.display().to_string());
        there.functions.extend(functions(&text).map(str::to_owned));
    }
    let mut pages = Vec::new();
    let folder = root.join("docs/rfc");
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        pages.push(entry?.path());
    }
    pages.sort();
    let mut findings = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
        let name = page.file_name().unwrap_or_default().display();
        findings.extend(
            missing(&text, &there)
                .into_iter()
                .map(|(line, what)| format!("docs/rfc/{name}:{line}: {what}")),
        );
    }
    println!("arch: {} clause tables, every proof there", pages.len());
    Ok(findings)
}

#[derive(Debug, Default)]
struct There {
    files: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl There {
    fn has_file(&self, path: &str) -> bool {
        let ending = format!("/{path}");
        let mut files = self.files.iter();
        files.any(|file| file == path || file.ends_with(&ending))
    }
}

/// What a page claims and is not there, with its line.
fn missing(page: &str, there: &There) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let mut proofs = false;
    for (number, line) in (1..).zip(page.lines()) {
        let mut cells = line.trim().trim_matches('|').split('|').map(str::trim);
        if line.starts_with('|') {
            let last = cells.next_back().unwrap_or_default();
            proofs |= last == "Test";
            if proofs && last.is_empty() {
                findings.push((number, "a row without a proof".to_owned()));
            }
        } else {
            proofs = false;
        }
        for word in line.split('`').skip(1).step_by(2) {
            if is_sentence(word) && !there.functions.contains(word) {
                findings.push((number, format!("there is no test `{word}`")));
            }
            if word.ends_with(".rs") && !there.has_file(word) {
                findings.push((number, format!("there is no file `{word}`")));
            }
        }
    }
    findings
}

/// Whether a word in code is the name of a test rather than of a key: tests are sentences.
fn is_sentence(word: &str) -> bool {
    let of_a_name =
        |letter: char| letter == '_' || letter.is_ascii_lowercase() || letter.is_ascii_digit();
    word.chars().all(of_a_name) && word.matches('_').count() > 2
}

/// The names of the functions a source file has.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let names = text.lines().filter_map(|line| line.split_once("fn "));
    names.filter_map(|(_, rest)| rest.split(['(', '<']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there() -> There {
        There {
            files: ["tests/netns/tests/vip_vmac.rs".to_owned()].into(),
            functions: functions("    fn who_is_there_answers() {}\nfn other<T>()")
                .map(str::to_owned)
                .collect(),
        }
    }

    #[test]
    fn a_proof_that_is_there_is_no_finding() {
        let page = "| Clause | Behaviour | Test |\n|---|---|---|\n| 1 | with `a_key_of` | `who_is_there_answers` (`vip_vmac.rs`) |\n";
        assert_eq!(missing(page, &there()), []);
    }

    #[test]
    fn a_renamed_test_a_missing_file_and_an_empty_cell_are_found() {
        let page = "| Clause | Test |\n|---|---|\n| 1 | `who_was_there_answered` |\n| 2 | |\n\nSee `vip_mac.rs`.\n";
        let found = missing(page, &there());
        let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 4, 6], "{found:?}");
    }
}
