//! keepalived.conf as nested statements.

use kedge_core::{Code, Problem};

use super::{
    lines::Line,
    words::{Token, tokens},
};
use crate::migrate::{report::Place, source::refused};

/// A keyword with its words, and the block it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// The keyword first.
    pub(super) words: Vec<String>,
    /// What stands in its block.
    pub(super) block: Vec<Self>,
    /// Where the keyword stands.
    pub(super) place: Place,
    is_block: bool,
}

impl Statement {
    /// The keyword.
    pub(super) fn keyword(&self) -> &str {
        self.word(0)
    }

    /// A word; empty when there is none.
    pub(super) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// A word fit for a report: one that is no plain word may be more than it should be, such as a
    /// password behind a quote that stands wrong.
    pub(super) fn shown(&self, index: usize) -> &str {
        let word = self.word(index);
        let is_plain = word.len() <= LONGEST_SHOWN && word.chars().all(|c| c.is_ascii_graphic());
        if is_plain { word } else { "…" }
    }

    /// The word after this one.
    pub(super) fn after(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|one| one == word)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// Whether one of the words is this.
    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }
}

/// Nests the lines.
///
/// # Errors
///
/// Braces or quotes are not closed, or blocks are nested deeper than keepalived has any.
pub(super) fn parse(lines: &[Line]) -> Result<Vec<Statement>, Problem> {
    let mut open: Vec<Statement> = Vec::new();
    let mut top: Vec<Statement> = Vec::new();
    for line in lines {
        let mut words: Vec<String> = Vec::new();
        let pieces = tokens(&line.text).map_err(|quote| {
            let place = format!("{}:{}", line.place, line.indent + quote.column);
            wrong(&place, "a quote is not closed on its line", "close it")
        })?;
        for piece in pieces {
            match piece {
                Token::Word(word) => words.push(word),
                Token::Open => {
                    let ended = end(&mut words, line, false);
                    let mut statement = match ended {
                        Some(statement) => statement,
                        // A brace on a line of its own belongs to the statement before it.
                        None => siblings(&mut open, &mut top)
                            .pop_if(|last| !last.is_block)
                            .ok_or_else(|| {
                                let place = line.place.to_string();
                                wrong(&place, "a block without a keyword", "remove the `{`")
                            })?,
                    };
                    statement.is_block = true;
                    if open.len() >= DEEPEST {
                        return Err(refused(
                            Code::ConfigTooLarge,
                            &line.place.to_string(),
                            "nested deeper than any configuration of keepalived",
                            "close the blocks before this line",
                        ));
                    }
                    open.push(statement);
                }
                Token::Close => {
                    siblings(&mut open, &mut top).extend(end(&mut words, line, false));
                    let closed = open.pop().ok_or_else(|| {
                        let place = line.place.to_string();
                        wrong(&place, "a `}` closes nothing", "remove it")
                    })?;
                    siblings(&mut open, &mut top).push(closed);
                }
            }
        }
        siblings(&mut open, &mut top).extend(end(&mut words, line, false));
    }
    match open.first() {
        None => Ok(top),
        Some(first) => {
            let what = format!("the block `{}` is never closed", first.keyword());
            Err(wrong(
                &first.place.to_string(),
                &what,
                "add the missing `}`",
            ))
        }
    }
}

fn siblings<'a>(open: &'a mut [Statement], top: &'a mut Vec<Statement>) -> &'a mut Vec<Statement> {
    match open.last_mut() {
        Some(parent) => &mut parent.block,
        None => top,
    }
}

fn end(words: &mut Vec<String>, line: &Line, is_block: bool) -> Option<Statement> {
    (!words.is_empty()).then(|| Statement {
        words: std::mem::take(words),
        block: Vec::new(),
        place: line.place.clone(),
        is_block,
    })
}

fn wrong(place: &str, what: &str, fix: &str) -> Problem {
    refused(Code::ConfigSyntax, place, what, fix)
}

const LONGEST_SHOWN: usize = 64;
/// keepalived's own blocks are at most five deep.
const DEEPEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Statement>, Problem> {
        let lines: Vec<Line> = text
            .lines()
            .enumerate()
            .map(|(index, text)| Line {
                place: Place {
                    file: "k".into(),
                    line: index + 1,
                },
                indent: 0,
                text: text.trim().to_owned(),
            })
            .collect();
        parse(&lines)
    }

    #[test]
    fn a_block_is_written_in_any_of_the_usual_ways() {
        for text in [
            "a x {\n b {\n c 1\n }\n}",
            "a x\n{\n b\n {\n c 1\n }\n}",
            "a x {\n b { c 1 }\n}",
            "a x{\nb{\nc 1}}",
        ] {
            let top = parsed(text).unwrap();
            assert_eq!(top.len(), 1, "{text}");
            assert_eq!(top[0].words, ["a", "x"]);
            assert_eq!(top[0].block[0].block[0].words, ["c", "1"]);
        }
    }

    #[test]
    fn braces_that_do_not_match_are_told_with_their_place() {
        for (text, what) in [
            ("a {\n b", "k:1: the block `a` is never closed"),
            ("a {\n}\n}", "k:3: a `}` closes nothing"),
            ("{\n}", "k:1: a block without a keyword"),
            ("a {\n}\n{\n}", "k:3: a block without a keyword"),
            ("a \"b", "k:1:3: a quote is not closed on its line"),
        ] {
            assert_eq!(parsed(text).unwrap_err().what, what);
        }
        let deep = parsed(&"a {\n".repeat(100)).unwrap_err();
        assert_eq!(deep.code, Code::ConfigTooLarge);
    }
}
