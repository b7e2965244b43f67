//! The journal's catalogue: what `journalctl -x` shows below a message that has a code.

use std::fmt::Write as _;

use kedge_core::Code;

/// One entry for each code, made of its page.
#[must_use]
pub fn text() -> String {
    let mut text = String::from("# Written by cargo xtask dist from docs/errors.\n");
    for code in Code::ALL {
        let page = code.page();
        // The first line is the title, which is the subject here.
        let body = page.split_once('\n').map_or("", |(_, body)| body).trim();
        let _ = write!(
            text,
            "\n-- {}\nSubject: {code}: {}\nDefined-By: Kedge\nDocumentation: man:kedge-explain(1)\n\n",
            code.message_id(),
            code.title()
        );
        for line in body.lines() {
            // A line that starts like this would start the next entry.
            let line = line.strip_prefix("-- ").unwrap_or(line);
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn every_code_has_an_entry_that_says_what_to_do() {
        let text = text();
        for code in Code::ALL {
            let (_, entry) = text
                .split_once(&format!("-- {}\n", code.message_id()))
                .unwrap();
            let entry = entry.split("\n-- ").next().unwrap();
            assert!(entry.starts_with(&format!("Subject: {code}: ")), "{entry}");
            assert!(entry.contains("## What to do"), "{entry}");
        }
    }
}
