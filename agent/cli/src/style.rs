//! How text looks: colours, marks, and what keeps strings of others from drawing on a terminal.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _},
    time::Duration,
};

use clap::ValueEnum;
use kedge_core::{Problem, Severity};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Colours and marks, decided once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to write escape sequences.
    pub color: bool,
    /// Whether to keep to ASCII.
    pub ascii: bool,
}

/// What a line says at first glance. Never by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Fine, and not in use: a Backup.
    Idle,
    /// Fine.
    Good,
    /// Somebody should look.
    Warning,
    /// Broken.
    Bad,
}

impl Mark {
    /// The mark of a thing with problems; `good` when it has none.
    pub fn of<'a>(problems: impl IntoIterator<Item = &'a Problem>, good: Self) -> Self {
        problems
            .into_iter()
            .map(|problem| match problem.severity {
                Severity::Warning => Self::Warning,
                Severity::Error => Self::Bad,
            })
            .fold(good, Self::max)
    }
}

impl Style {
    /// Neither colours nor anything beyond ASCII.
    pub const PLAIN: Self = Self {
        color: false,
        ascii: true,
    };

    /// The style for this process's stdout.
    #[must_use]
    pub fn detect(choice: ColorChoice, ascii: bool) -> Self {
        Self::decide(choice, ascii, io::stdout().is_terminal(), |name| {
            std::env::var(name).ok()
        })
    }

    fn decide(
        choice: ColorChoice,
        ascii: bool,
        terminal: bool,
        env: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if set("NO_COLOR").is_some() => false,
            ColorChoice::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            ColorChoice::Auto => terminal && set("TERM").is_none_or(|term| term != "dumb"),
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| set(name));
        let unicode = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self {
            color,
            ascii: ascii || !unicode,
        }
    }

    /// A mark.
    #[must_use]
    pub fn mark(self, mark: Mark) -> String {
        let (unicode, ascii, color) = match mark {
            Mark::Good => ("●", "*", GREEN),
            Mark::Idle => ("○", "o", DIM),
            Mark::Warning => ("▲", "!", YELLOW),
            Mark::Bad => ("✗", "x", RED),
        };
        self.paint(color, if self.ascii { ascii } else { unicode })
    }

    /// The arrow in front of a reason below its line.
    #[must_use]
    pub const fn hook(self) -> &'static str {
        if self.ascii { "`->" } else { "↳" }
    }

    /// What separates two hints.
    #[must_use]
    pub const fn dot(self) -> &'static str {
        if self.ascii { "|" } else { "·" }
    }

    /// A text as this terminal can show it: without the glyphs that roles write into sentences.
    #[must_use]
    pub fn fit(self, text: String) -> String {
        if self.ascii && !text.is_ascii() {
            text.replace('→', "->")
                .replace('·', "|")
                .replace(['–', '—'], "-")
                .replace('×', "x")
                .replace('±', "+-")
        } else {
            text
        }
    }

    /// Important.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.paint(BOLD, text)
    }

    /// Beside the point.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.paint(DIM, text)
    }

    /// By severity.
    #[must_use]
    pub fn severity(self, severity: Severity, text: &str) -> String {
        let color = match severity {
            Severity::Warning => YELLOW,
            Severity::Error => RED,
        };
        self.paint(color, text)
    }

    fn paint(self, color: &str, text: &str) -> String {
        if self.color {
            format!("\x1b[{color}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A string somebody else made, fit for a terminal: control characters are escaped.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        let mut safe = String::with_capacity(text.len());
        for c in text.chars() {
            if c.is_control() {
                safe.extend(c.escape_default());
            } else {
                safe.push(c);
            }
        }
        Cow::Owned(safe)
    } else {
        Cow::Borrowed(text)
    }
}

/// A long time in its two largest units: `12d 4h`, `3m 20s`, `45s`.
#[must_use]
pub fn long(seconds: f64) -> String {
    let total = Duration::try_from_secs_f64(seconds.max(0.0))
        .unwrap_or_default()
        .as_secs();
    let units = [
        (total / 86_400, "d"),
        (total / 3_600 % 24, "h"),
        (total / 60 % 60, "m"),
        (total % 60, "s"),
    ];
    let first = units.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let shown: Vec<String> = units
        .iter()
        .skip(first)
        .take(2)
        .enumerate()
        .filter(|(index, (n, _))| *index == 0 || *n > 0)
        .map(|(_, (n, unit))| format!("{n}{unit}"))
        .collect();
    shown.join(" ")
}

/// A short time with three figures: `3.10 ms`, `0.05 s`.
#[must_use]
pub fn short(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    if seconds < 0.001 {
        format!("{:.0} us", seconds * 1e6)
    } else if seconds < 0.1 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else {
        long(seconds)
    }
}

/// Bytes with a unit: `512 B`, `1.2 MB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two figures are shown")]
    let mut value = count as f64;
    if value < 1000.0 {
        return format!("{count} B");
    }
    for unit in ["kB", "MB", "GB", "TB", "PB"] {
        value /= 1000.0;
        if value < 1000.0 {
            return format!("{value:.1} {unit}");
        }
    }
    format!("{value:.0} PB")
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_and_glyphs_follow_the_flags_then_the_environment() {
        let utf8 = |name: &str| (name == "LANG").then(|| "de_DE.UTF-8".to_owned());
        let decide = |choice, terminal, extra: &'static str| {
            Style::decide(choice, false, terminal, move |name| {
                let (key, value) = extra.split_once('=').unwrap_or_default();
                if name == key {
                    Some(value.to_owned())
                } else {
                    utf8(name)
                }
            })
        };
        assert!(decide(ColorChoice::Auto, true, "").color);
        assert!(!decide(ColorChoice::Auto, false, "").color);
        assert!(!decide(ColorChoice::Auto, true, "NO_COLOR=1").color);
        assert!(decide(ColorChoice::Auto, true, "NO_COLOR=").color);
        assert!(!decide(ColorChoice::Auto, true, "TERM=dumb").color);
        assert!(decide(ColorChoice::Auto, false, "CLICOLOR_FORCE=1").color);
        assert!(decide(ColorChoice::Always, false, "NO_COLOR=1").color);
        assert!(!decide(ColorChoice::Never, true, "").color);
        assert!(!decide(ColorChoice::Auto, true, "").ascii);
        assert!(decide(ColorChoice::Auto, true, "LC_ALL=C").ascii);
        assert!(Style::decide(ColorChoice::Auto, true, true, utf8).ascii);
        assert!(Style::decide(ColorChoice::Auto, false, true, |_| None).ascii);
    }

    #[test]
    fn strings_of_others_cannot_draw() {
        assert_eq!(clean("edge-a"), "edge-a");
        assert_eq!(clean("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
    }

    #[test]
    fn sentences_of_roles_fit_an_ascii_terminal() {
        let text = "254 → 63 · 3 × 100 ms".to_owned();
        assert_eq!(Style::PLAIN.fit(text), "254 -> 63 | 3 x 100 ms");
    }

    #[test]
    fn times_and_sizes_are_short() {
        for (seconds, text) in [
            (0.0, "0s"),
            (59.9, "59s"),
            (60.0, "1m"),
            (3_725.0, "1h 2m"),
            (86_400.0, "1d"),
            (2_685_600.0, "31d 2h"),
            (-5.0, "0s"),
            (f64::NAN, "0s"),
        ] {
            assert_eq!(long(seconds), text, "{seconds}");
        }
        assert_eq!(short(0.0031), "3.1 ms");
        assert_eq!(short(0.325), "325 ms");
        assert_eq!(short(0.000_04), "40 us");
        assert_eq!(short(2.0), "2.0 s");
        assert_eq!(short(75.0), "1m 15s");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_234_567), "1.2 MB");
    }
}
