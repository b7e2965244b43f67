//! The lines of a wg-quick file: sections, `Key = Value`, and `#` to the end of the line.

use std::{path::Path, sync::Arc};

use kedge_core::{Code, Problem};

use crate::migrate::{report::Place, source};

/// A section, `[Interface]` or `[Peer]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Where it begins.
    pub(super) place: Place,
    /// Whether it is a peer.
    pub(super) is_peer: bool,
    /// The comment right above it or first in it, which is what people call it.
    pub(super) comment: Option<String>,
    /// Its settings, in order.
    pub(super) settings: Vec<Setting>,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Where it stands.
    pub(super) place: Place,
    /// Its key as it was written.
    pub(super) key: String,
    /// Its value without the comment.
    pub(super) value: String,
}

/// Parts a file into sections.
///
/// # Errors
///
/// A line is neither, or stands before the first section.
pub(super) fn sections(path: &Path, text: &str) -> Result<Vec<Section>, Problem> {
    let file: Arc<str> = source::shown(path).into();
    let mut sections: Vec<Section> = Vec::new();
    let mut above = None;
    for (number, line) in (1..).zip(text.lines()) {
        let place = Place {
            file: Arc::clone(&file),
            line: number,
        };
        let (bare, comment) = line.split_once('#').unwrap_or((line, ""));
        let (bare, comment) = (bare.trim(), comment.trim());
        let comment = (!comment.is_empty()).then(|| comment.to_owned());
        if bare.is_empty() {
            match (&comment, sections.last_mut()) {
                (Some(_), Some(open)) if open.settings.is_empty() && open.comment.is_none() => {
                    open.comment.clone_from(&comment);
                }
                _ => {}
            }
            above = comment;
            continue;
        }
        let is_peer = match bare.to_ascii_lowercase().as_str() {
            "[interface]" => Some(false),
            "[peer]" => Some(true),
            _ => None,
        };
        if let Some(is_peer) = is_peer {
            sections.push(Section {
                place,
                is_peer,
                comment: comment.or_else(|| above.take()),
                settings: Vec::new(),
            });
            continue;
        }
        above = None;
        let wrong = |what: &str| {
            let fix = "check that this is a file of wg-quick: [Interface], [Peer], Key = Value";
            source::refused(Code::ConfigSyntax, &place.to_string(), what, fix)
        };
        let (key, value) = bare
            .split_once('=')
            .ok_or_else(|| wrong("neither a section nor `Key = Value`"))?;
        let section = sections
            .last_mut()
            .ok_or_else(|| wrong("a setting before the first section"))?;
        section.settings.push(Setting {
            place: place.clone(),
            key: key.trim().to_owned(),
            value: value.trim().to_owned(),
        });
    }
    Ok(sections)
}

impl Setting {
    /// Its key, as it is compared.
    pub(super) fn word(&self) -> String {
        self.key.to_ascii_lowercase()
    }

    /// The parts of a list.
    pub(super) fn parts(&self) -> impl Iterator<Item = &str> {
        let parts = self.value.split(',').map(str::trim);
        parts.filter(|part| !part.is_empty())
    }

    /// The setting with its value: for what is no secret and no command.
    pub(super) fn shown(&self) -> String {
        format!("{} = {}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_names_and_settings_without_comments() {
        let text = "# laptop\n[interface]\nListenPort=1 # why\n\n# gw\n[Peer]\nEndpoint = a:1\n\
                    [Peer] # two\n[PEER]\n# three\nAllowedIPs = a, b,\n";
        let sections = sections(Path::new("wg0.conf"), text).unwrap();
        let names: Vec<&str> = sections
            .iter()
            .map(|section| section.comment.as_deref().unwrap_or_default())
            .collect();
        assert_eq!(names, ["laptop", "gw", "two", "three"]);
        let setting = &sections[0].settings[0];
        assert_eq!(
            (setting.word().as_str(), setting.value.as_str()),
            ("listenport", "1")
        );
        assert_eq!(setting.place.to_string(), "wg0.conf:3");
        let list: Vec<&str> = sections[3].settings[0].parts().collect();
        assert_eq!(list, ["a", "b"]);
    }

    #[test]
    fn what_is_no_setting_is_told_with_its_line() {
        for (text, line) in [("[Peer]\nnonsense\n", "stdin:2"), ("\na = b\n", "stdin:2")] {
            let problem = sections(Path::new("-"), text).unwrap_err();
            assert!(problem.what.starts_with(line), "{problem:?}");
        }
    }
}
