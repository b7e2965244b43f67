//! One line of keepalived.conf: comments and words.

/// The line without its comment and the space around it. `#` and `!` start a comment anywhere
/// outside double quotes; a backslash takes that from them.
pub(super) fn without_comment(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' if !quoted && matches!(rest.peek(), Some('#' | '!')) => {
                kept.extend(rest.next());
                continue;
            }
            '\\' => {
                kept.push(c);
                kept.extend(rest.next());
                continue;
            }
            '#' | '!' if !quoted => break,
            _ => {}
        }
        kept.push(c);
    }
    kept.trim().to_owned()
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, without its quotes.
    Word(String),
    /// `{`
    Open,
    /// `}`
    Close,
}

/// A quote that is not closed on its line, and where it starts, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenQuote {
    /// The column.
    pub(super) column: usize,
}

/// The pieces of a line.
///
/// # Errors
///
/// A quote is not closed.
pub(super) fn tokens(line: &str) -> Result<Vec<Token>, OpenQuote> {
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars().enumerate().peekable();
    let flush = |word: &mut Option<String>, tokens: &mut Vec<Token>| {
        tokens.extend(word.take().map(Token::Word));
    };
    while let Some((at, c)) = chars.next() {
        match c {
            '"' | '\'' => {
                let into = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some((_, end)) if end == c => break,
                        Some((_, '\\')) => into.extend(chars.next().map(|(_, c)| unescaped(c))),
                        Some((_, inner)) => into.push(inner),
                        None => return Err(OpenQuote { column: at + 1 }),
                    }
                }
            }
            '$' if matches!(chars.peek(), Some((_, '{'))) => {
                // A parameter that nobody defined stays as it is, its braces are no block's.
                let into = word.get_or_insert_default();
                into.push(c);
                for (_, inner) in chars.by_ref() {
                    into.push(inner);
                    if inner == '}' {
                        break;
                    }
                }
            }
            '{' | '}' => {
                flush(&mut word, &mut tokens);
                tokens.push(if c == '{' { Token::Open } else { Token::Close });
            }
            '\\' => word
                .get_or_insert_default()
                .extend(chars.next().map(|(_, c)| c)),
            c if c.is_whitespace() => flush(&mut word, &mut tokens),
            c => word.get_or_insert_default().push(c),
        }
    }
    flush(&mut word, &mut tokens);
    Ok(tokens)
}

const fn unescaped(c: char) -> char {
    match c {
        'a' => '\x07',
        'b' => '\x08',
        'E' => '\x1b',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_start_anywhere_but_in_double_quotes() {
        for (line, kept) in [
            ("  interface eth0 # the LAN", "interface eth0"),
            ("interface eth0!x", "interface eth0"),
            ("! all of it", ""),
            (r#"auth_pass "a#b!c" # d"#, r#"auth_pass "a#b!c""#),
            (r"auth_pass a\#b", "auth_pass a#b"),
            (r#"script "x \" # y""#, r#"script "x \" # y""#),
        ] {
            assert_eq!(without_comment(line), kept, "{line}");
        }
    }

    #[test]
    fn words_are_quoted_and_braces_stand_alone() {
        let shown = |line: &str| -> Vec<String> {
            let tokens = tokens(line).unwrap();
            tokens.iter().map(|token| format!("{token:?}")).collect()
        };
        assert_eq!(
            shown(r#"vrrp_instance "V 1"{"#),
            [r#"Word("vrrp_instance")"#, r#"Word("V 1")"#, "Open"]
        );
        assert_eq!(
            shown(r#"abcd" efg "'mnop' ${X}y }"#),
            [r#"Word("abcd efg mnop")"#, r#"Word("${X}y")"#, "Close"]
        );
        assert_eq!(
            tokens(r#"script "/bin/x"#),
            Err(OpenQuote { column: 8 }),
            "an open quote has a place"
        );
    }
}
