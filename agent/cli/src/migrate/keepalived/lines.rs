//! The lines of keepalived.conf after `include`, the lines of other hosts and parameters, in
//! keepalived's order: comments, includes, `@host`, definitions, then parameters.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use kedge_core::{Code, Problem};

use super::{include, parameters, words::without_comment};
use crate::migrate::{
    report::{Place, Report},
    source,
};

/// A line that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Where it stands.
    pub(super) place: Place,
    /// How far it is indented.
    pub(super) indent: usize,
    /// What it says, without comment.
    pub(super) text: String,
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The lines that count.
    pub(super) lines: Vec<Line>,
    /// Whose lines were left out.
    pub(super) others: BTreeSet<String>,
}

/// Reads a file and everything it includes.
///
/// # Errors
///
/// The file cannot be read, or there is more of it than of any configuration.
pub(super) fn read(path: &Path, config_id: &str, report: &mut Report) -> Result<Lines, Problem> {
    let text = source::read(path)?;
    let mut reader = Reader {
        config_id,
        report,
        parameters: BTreeMap::new(),
        read: Lines::default(),
        files: 0,
        written: 0,
    };
    reader.file(path, &text, 0)?;
    Ok(reader.read)
}

struct Reader<'a> {
    config_id: &'a str,
    report: &'a mut Report,
    parameters: BTreeMap<String, String>,
    read: Lines,
    files: usize,
    // Bytes that parameters made.
    written: usize,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, text: &str, depth: usize) -> Result<(), Problem> {
        let name = source::shown(path);
        self.files += 1;
        if depth > DEEPEST || self.files > MOST_FILES {
            let what = "files include each other without end";
            return Err(too_much(&name, what));
        }
        let file: std::sync::Arc<str> = name.into();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        self.enter(&folder);
        let mut source = text.lines().enumerate();
        while let Some((index, raw)) = source.next() {
            let mut text = without_comment(raw);
            let place = Place {
                file: file.clone(),
                line: index + 1,
            };
            if let Some(pattern) = included(&text) {
                self.include(&place, pattern, &folder, depth)?;
                self.enter(&folder);
                continue;
            }
            if parameters::goes_on(&text) {
                for (_, raw) in source.by_ref() {
                    text.truncate(text.trim_end_matches('\\').trim_end().len());
                    let next = without_comment(raw);
                    text.push('\n');
                    text.push_str(&next);
                    if !next.is_empty() && !next.ends_with('\\') {
                        break;
                    }
                }
                text.truncate(text.trim_end_matches('\\').trim_end().len());
            }
            let indent = raw.len() - raw.trim_start().len();
            self.line(&place, indent, text, 0)?;
        }
        Ok(())
    }

    /// Lets `${_PWD}` stand for the folder whose file is read.
    fn enter(&mut self, folder: &Path) {
        let folder = or_here(folder).display().to_string();
        self.parameters.insert("_PWD".to_owned(), folder);
    }

    fn include(
        &mut self,
        place: &Place,
        pattern: &str,
        folder: &Path,
        depth: usize,
    ) -> Result<(), Problem> {
        let what = format!("include {pattern}");
        let files = include::files(pattern, folder);
        if files.is_empty() && include::is_wild(pattern) {
            self.report.taken(place, what, "");
        } else if files.is_empty() {
            let consequence = "there is no such file: what should stand there was not migrated";
            self.report.missing(place, what, consequence);
        }
        for path in files {
            match source::read_included(&path) {
                Ok(text) => self.file(&path, &text, depth + 1)?,
                Err(problem) => self.report.missing(
                    place,
                    format!("include {}", path.display()),
                    format!("{}: what stands there was not migrated", problem.what),
                ),
            }
        }
        Ok(())
    }

    /// One line, which parameters may turn into many.
    fn line(
        &mut self,
        place: &Place,
        indent: usize,
        mut text: String,
        depth: usize,
    ) -> Result<(), Problem> {
        loop {
            if text.len() > LONGEST && !text.contains('\n') {
                return Err(too_much(&place.to_string(), "a line longer than any"));
            }
            if let Some(rest) = text.strip_prefix('@') {
                let (host, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let (host, wanted) = match host.strip_prefix('^') {
                    Some(host) => (host, false),
                    None => (host, true),
                };
                if (host == self.config_id) != wanted {
                    self.read.others.insert(host.to_owned());
                    return Ok(());
                }
                text = rest.trim_start().to_owned();
            } else if let Some((name, value)) = parameters::definition(&text) {
                self.parameters.insert(name.to_owned(), value.to_owned());
                return Ok(());
            } else if text.starts_with("~SEQ") || text.starts_with("~LST") {
                let consequence = "Kedge does not write sequences out: what they stand for was not \
                                   migrated. Write the lines out, then migrate again";
                let kind = text.get(..4).unwrap_or_default();
                self.report
                    .missing(place, format!("{kind}(…)"), consequence);
                return Ok(());
            } else {
                match parameters::replaced(&text, &self.parameters) {
                    None => break,
                    Some(next) => text = next,
                }
                self.written = self.written.saturating_add(text.len() + 1);
                if self.written > MOST_WRITTEN || depth > DEEPEST {
                    let what = "parameters stand for more than any configuration has";
                    return Err(too_much(&place.to_string(), what));
                }
                if text.contains('\n') {
                    return text.lines().try_for_each(|line| {
                        self.line(place, indent, line.trim().to_owned(), depth + 1)
                    });
                }
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        if self.read.lines.len() >= MOST_LINES {
            let what = "more lines than any configuration has";
            return Err(too_much(&place.to_string(), what));
        }
        self.read.lines.push(Line {
            place: place.clone(),
            indent,
            text,
        });
        Ok(())
    }
}

/// The folder of a file that was named without one.
pub(super) fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
}

/// The pattern of an `include` of any kind.
fn included(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("include")?;
    let rest = rest.strip_prefix(['r', 'm', 'w', 'b', 'a']).unwrap_or(rest);
    let pattern = rest.strip_prefix([' ', '\t'])?.trim();
    let pattern = pattern.trim_matches(['"', '\'']);
    (!pattern.is_empty()).then_some(pattern)
}

fn too_much(place: &str, what: &str) -> Problem {
    let fix = "check that this is the file you mean, and that nothing stands for itself";
    source::refused(Code::ConfigTooLarge, place, what, fix)
}

/// How deep files include each other and parameters stand for lines with parameters.
const DEEPEST: usize = 16;
/// keepalived itself cuts lines at a tenth of it.
const LONGEST: usize = 10_240;
const MOST_FILES: usize = 256;
const MOST_LINES: usize = 20_000;
const MOST_WRITTEN: usize = 4 << 20;

#[cfg(test)]
mod tests;
