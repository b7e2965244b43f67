//! Writing documents: the same document as a table, as JSON, as YAML or as names.

mod bench;
mod bfd;
mod bgp;
mod capture;
mod config;
mod doctor;
mod fleet;
mod gateway;
mod lb;
mod net;
mod operate;
mod paths;
mod ping;
mod services;
mod status;
mod tokens;
mod tunnels;
mod uninstall;
mod vips;

use jiff::Timestamp;
use kedge_control::Document;
use kedge_control::Kind;
use kedge_core::{Code, Problem};
use serde::Serialize;
use serde_json::Value;

pub use self::{bgp::Details, lb::Explained};
use crate::{
    args::Format,
    client::{Answer, Failure},
    style::{self, Style},
};

/// How to show things.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Colours and marks.
    pub style: Style,
    /// More columns.
    pub wide: bool,
    /// The time ages are counted from.
    pub now: Timestamp,
}

/// A document people look at.
pub trait Show: Kind {
    /// As text for people, each line ended.
    fn text(&self, view: &View) -> String;

    /// The names of what it lists; its own name if it is no list.
    fn names(&self) -> Vec<String>;
}

impl View {
    /// How long ago an RFC 3339 time was; empty when there is none.
    #[must_use]
    pub fn age(&self, since: &str) -> String {
        match since.parse::<Timestamp>() {
            Ok(since) => style::long(self.now.duration_since(since).as_secs_f64()),
            Err(_) => String::new(),
        }
    }

    /// How long until an RFC 3339 time; `None` when it has passed or is none.
    #[must_use]
    pub fn until(&self, time: &str) -> Option<String> {
        let left = time.parse::<Timestamp>().ok()?.duration_since(self.now);
        left.is_positive().then(|| style::long(left.as_secs_f64()))
    }

    /// The last line: what to type next.
    #[must_use]
    pub fn next(&self, commands: &[String]) -> String {
        let separator = format!("   {}   ", self.style.dot());
        format!(
            "{}\n",
            self.style
                .dim(&format!("Next: {}", commands.join(&separator)))
        )
    }
}

/// An answer as text in the wanted format.
///
/// # Errors
///
/// The document cannot be written in that format.
pub fn render<T: Show>(answer: &Answer<T>, format: Format, view: &View) -> Result<String, Failure> {
    match format {
        Format::Table | Format::Wide => Ok(view.style.fit(answer.body.text(view))),
        Format::Name => Ok(answer
            .body
            .names()
            .iter()
            .map(|name| format!("{}\n", style::clean(name)))
            .collect()),
        Format::Json | Format::Yaml | Format::Jsonl => data(&answer.raw, format),
    }
}

/// A document as data.
///
/// # Errors
///
/// The document cannot be written in that format.
pub fn data(document: &Value, format: Format) -> Result<String, Failure> {
    let failed = |error: &dyn std::error::Error| -> Failure {
        Problem::new(Code::SysUnexpected, "the result cannot be written")
            .caused_by(error)
            .into()
    };
    let mut text = match format {
        Format::Yaml => serde_saphyr::to_string(document).map_err(|error| failed(&error))?,
        Format::Jsonl => {
            let lines = document.get("items").and_then(Value::as_array).map_or_else(
                || vec![document.to_string()],
                |items| items.iter().map(Value::to_string).collect(),
            );
            lines.join("\n")
        }
        _ => serde_json::to_string_pretty(document).map_err(|error| failed(&error))?,
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// A body this process made itself, as an answer.
///
/// # Errors
///
/// The body cannot be written as JSON.
pub fn own<T: Kind + Serialize + Clone>(body: &T) -> Result<Answer<T>, Failure> {
    let raw = serde_json::to_value(Document::new(body.clone()))
        .map_err(|error| Problem::new(Code::SysUnexpected, error.to_string()))?;
    Ok(Answer {
        raw,
        body: body.clone(),
    })
}

/// How many problems, and how to learn more: the end of a status.
fn summary(problems: &[&Problem], view: &View, otherwise: &str) -> String {
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == kedge_core::Severity::Error)
        .count();
    let warnings = problems.len() - errors;
    let count = |n: usize, word: &str| match n {
        0 => None,
        1 => Some(format!("1 {word}")),
        n => Some(format!("{n} {word}s")),
    };
    let counts: Vec<String> = [count(errors, "error"), count(warnings, "warning")]
        .into_iter()
        .flatten()
        .collect();
    let mut codes: Vec<String> = Vec::new();
    for problem in problems {
        let command = format!("kedge explain {}", problem.code);
        if !codes.contains(&command) {
            codes.push(command);
        }
    }
    if codes.is_empty() {
        return view.next(&[otherwise.to_owned()]);
    }
    codes.truncate(3);
    format!("{}.  {}", counts.join(", "), view.next(&codes))
}

/// A problem in one line below what it is about.
fn hook(problem: &Problem, view: &View) -> String {
    let text = format!(
        "  {} {} ({})",
        view.style.hook(),
        style::clean(&problem.what),
        problem.code
    );
    format!("{}\n", view.style.severity(problem.severity, &text))
}

/// `key: value` lines, aligned.
fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + 1;
    pairs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| {
            let key = format!("{key}:");
            format!("{key:<width$}  {}\n", style::clean(value))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
