//! One configuration file, parsed alone.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use figment::value::Value;
use kedge_core::{Code, Fix, Problem};
use serde_saphyr::{Location, Options, budget::BudgetBreach};

use super::{RoleFile, located::Places, merge::Layer, suggest};

/// Reads a file into a layer. `None` if it does not exist.
pub(super) fn read<F: RoleFile>(path: &Path) -> Result<Option<Layer>, Box<Problem>> {
    let bytes = match read_bounded(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Box::new(unreadable(path, &error))),
    };
    let text = as_text(path, bytes)?;
    let name = path.display().to_string();
    let file: Option<F> = serde_saphyr::from_str_with_options(&text, options())
        .map_err(|error| Box::new(mistake(&error, &text, &name)))?;
    let value = Value::serialize(file.unwrap_or_default()).map_err(|error| {
        Box::new(Problem::new(Code::SysUnexpected, error.to_string()).object(name.clone()))
    })?;
    Ok(Some(Layer {
        value,
        places: Places::of_file(name, &text),
    }))
}

/// How every configuration is parsed. An anchor is refused at sight: an anchor bomb needs one.
pub(super) fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_nodes: 20_000,
            max_depth: 32,
            max_anchors: 0,
        },
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn as_text(path: &Path, bytes: Vec<u8>) -> Result<String, Box<Problem>> {
    let refused = |what: String| {
        Box::new(
            told(Code::ConfigTooLarge, what, &path.display().to_string()).fix(
                Fix::text("check that this is the file you mean: a short YAML text")
                    .command(format!("file {0}; wc -c {0}", path.display())),
            ),
        )
    };
    let name = path.display();
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused(format!("{name} is larger than 1 MiB")));
    }
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let (line, column) = position(&bytes, at);
        return Err(refused(format!("{name}:{line}:{column}: a NUL byte")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let (line, column) = position(error.as_bytes(), at);
        refused(format!("{name}:{line}:{column}: not UTF-8"))
    })
}

fn position(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = bytes.get(..at).unwrap_or(bytes);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    (line, column)
}

/// A file that is there and cannot be opened.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let name = path.display().to_string();
    told(
        Code::ConfigFileUnreadable,
        format!("{name} cannot be read"),
        &name,
    )
    .evidence(error.to_string())
    .fix(
        Fix::text("check the path, and that the role's user may read it")
            .command(format!("ls -ld {name}")),
    )
}

/// What the parser refused, told with its place.
fn mistake(error: &serde_saphyr::Error, text: &str, name: &str) -> Problem {
    use serde_saphyr::Error as E;

    let location = error.location().filter(|location| location.line() > 0);
    let place = location.map_or_else(
        || name.to_owned(),
        |location| format!("{name}:{}:{}", location.line(), location.column()),
    );
    let check = format!("kedge config check {name}");
    let (code, what, fix) = match error {
        E::SerdeUnknownField {
            field, expected, ..
        } => {
            let what = format!("unknown key `{}`", field.escape_debug());
            (Code::ConfigUnknownKey, what, instead(field, expected))
        }
        E::SerdeUnknownVariant {
            variant, expected, ..
        } => {
            let what = format!("unknown value `{}`", variant.escape_debug());
            (Code::ConfigOutOfRange, what, one_of(variant, expected))
        }
        E::Budget { .. } | E::InvalidUtf8Input => (
            Code::ConfigTooLarge,
            plain_message(error),
            "a configuration has no anchors, at most 32 levels and 20 000 values".to_owned(),
        ),
        E::Message { .. }
        | E::InvalidScalar { .. }
        | E::NonFiniteFloat { .. }
        | E::NullIntoString { .. }
        | E::SerdeInvalidType { .. }
        | E::SerdeInvalidValue { .. }
        | E::SerdeInvalidLength { .. }
        | E::QuotingRequired { .. } => (
            Code::ConfigOutOfRange,
            plain_message(error),
            "write a value the key allows".to_owned(),
        ),
        E::DuplicateMappingKey { key, .. } => (
            Code::ConfigSyntax,
            format!(
                "the key `{}` stands here a second time",
                key.as_deref().unwrap_or("?").escape_debug()
            ),
            "put both into one, or remove one".to_owned(),
        ),
        _ => (
            Code::ConfigSyntax,
            plain_message(error),
            "correct the YAML at this place".to_owned(),
        ),
    };
    let mut problem = told(code, format!("{place}: {what}"), name);
    if let Some(location) = location {
        problem = problem.evidence(underlined(text, location, &fix));
    }
    problem.fix(Fix::text(fix).command(check))
}

/// The source line with the mistake underlined, and the line before it. In ASCII and without
/// colour: the same text goes to terminals, journals and JSON.
fn underlined(text: &str, location: Location, note: &str) -> String {
    let line = usize::try_from(location.line()).unwrap_or(0);
    let column = usize::try_from(location.column()).unwrap_or(0);
    let width = line.to_string().len();
    let mut drawn = String::new();
    for number in line.saturating_sub(1).max(1)..=line {
        let source = text.lines().nth(number - 1).unwrap_or_default();
        drawn.push_str(&format!("{number:>width$} | {}\n", printable(source)));
    }
    let source = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let room = source
        .chars()
        .count()
        .saturating_sub(column.saturating_sub(1));
    let length = usize::try_from(location.span().len()).unwrap_or(1);
    let marks = "^".repeat(length.clamp(1, room.max(1)).min(MARKS_AT_MOST));
    let indent = " ".repeat(column.saturating_sub(1).min(COLUMNS_AT_MOST));
    drawn.push_str(&format!("{:width$} | {indent}{marks} {note}", ""));
    drawn.trim_end().to_owned()
}

/// One character per character, so that the marks stand below what they mean.
fn printable(line: &str) -> String {
    let clean = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    line.chars().take(COLUMNS_AT_MOST).map(clean).collect()
}

/// The parser's message in words for people, without the place: that stands in front already.
fn plain_message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::{Error as E, MessageFormatter as _};

    match error {
        E::InvalidScalar { ty, .. } => format!("this is not {}", words(ty)),
        E::SerdeInvalidType {
            unexpected,
            expected,
            ..
        } => format!("found {unexpected} where {} belongs", words(expected)),
        E::Unexpected { expected, .. } => format!("{} belongs here", words(expected)),
        E::Budget { breach, .. } => too_much(breach).to_owned(),
        error => {
            let message = serde_saphyr::UserMessageFormatter
                .format_message(error.without_snippet())
                .into_owned();
            plain(&with_words(&without_places(&message)))
        }
    }
}

/// Which bound a text goes beyond.
fn too_much(breach: &BudgetBreach) -> &'static str {
    match breach {
        BudgetBreach::Anchors { .. }
        | BudgetBreach::Aliases { .. }
        | BudgetBreach::AliasAnchorRatio { .. } => {
            "an anchor or alias, which no configuration needs"
        }
        BudgetBreach::Depth { .. } => "nested deeper than any configuration",
        _ => "longer than any configuration",
    }
}

/// What the parser's words for types mean.
pub(super) fn words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "bool" | "boolean" | "a boolean" => "`true` or `false`",
        "mapping start" | "a map" => "a map of names and values (`name: value`)",
        "sequence start" | "a sequence" => "a list, such as `[a, b]`,",
        "string scalar" | "a string" => "a text",
        "socket address" => "an address and a port, such as `127.0.0.1:9443`,",
        "IP address" => "an IP address",
        other => other,
    }
}

fn with_words(message: &str) -> String {
    match message.split_once(", expected ") {
        Some((before, after)) => {
            let (expected, rest) = after.split_once(';').unwrap_or((after, ""));
            let rest = if rest.is_empty() {
                String::new()
            } else {
                format!(";{rest}")
            };
            format!("{before}, expected {}{rest}", words(expected))
        }
        None => message.to_owned(),
    }
}

/// The standard library's words for what is no address, with an example of one.
pub(super) fn plain(message: &str) -> String {
    message
        .replace(
            "invalid socket address syntax",
            "not an address and a port, such as `127.0.0.1:9443`",
        )
        .replace(
            "invalid IP address syntax",
            "not an IP address, such as `10.20.14.10`, without a prefix length",
        )
}

/// Drops every ` at line 3, column 5`.
fn without_places(message: &str) -> String {
    let mut parts = message.split(" at line ");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start_matches(", column ")
            .trim_start_matches(|c: char| c.is_ascii_digit());
        clean.push_str(after);
    }
    clean
}

fn instead(field: &str, expected: &[&str]) -> String {
    match suggest::closest(field, expected.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("keys allowed here: {}", expected.join(", ")),
    }
}

fn one_of(variant: &str, expected: &[&str]) -> String {
    match suggest::closest(variant, expected.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("values allowed here: {}", expected.join(", ")),
    }
}

/// A problem of a file: what every one of them has in common.
pub(super) fn told(code: Code, what: String, object: &str) -> Problem {
    Problem::new(code, what)
        .object(object)
        .consequence(NOT_USED)
}

/// The consequence of every mistake in a configuration.
pub(super) const NOT_USED: &str = "the configuration is not used; what ran before goes on running";

const COLUMNS_AT_MOST: usize = 160;
const MARKS_AT_MOST: usize = 60;
const MAX_BYTES: u64 = 1024 * 1024;
