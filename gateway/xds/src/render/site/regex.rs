//! Which regular expressions Envoy takes: those of RE2, of which this knows a part. Whatever is accepted
//! here compiles there; of what compiles there some is refused here.

use regex_syntax::ast::{
    AssertionKind, Ast, ClassPerlKind, ClassSet, ClassSetItem, Flag, Flags, FlagsItemKind,
    GroupKind, LiteralKind, RepetitionKind, RepetitionRange, SpecialLiteralKind, parse::Parser,
};

/// What is wrong with a regular expression; nothing when Envoy takes it.
pub fn check(pattern: &str) -> Result<(), &'static str> {
    if !(1..=LONGEST).contains(&pattern.len()) {
        return Err("a regular expression has 1 to 512 characters");
    }
    if !pattern.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err("a regular expression is printable ASCII");
    }
    let Ok(ast) = Parser::new().parse(pattern) else {
        return Err("a regular expression cannot be read");
    };
    let size = size(&ast, 1)?;
    if size > LARGEST {
        return Err("a regular expression repeats too much");
    }
    Ok(())
}

/// A bound of how many instructions it becomes; `times` is how often what is around it repeats it.
fn size(ast: &Ast, times: u32) -> Result<u32, &'static str> {
    let size = match ast {
        Ast::Empty(_) => 1,
        Ast::Flags(set) => {
            flags(&set.flags)?;
            1
        }
        Ast::Literal(literal) => {
            self::literal(&literal.kind, literal.c)?;
            2
        }
        Ast::Dot(_) | Ast::ClassPerl(_) => WIDE,
        Ast::Assertion(assertion) => match assertion.kind {
            AssertionKind::StartLine
            | AssertionKind::EndLine
            | AssertionKind::StartText
            | AssertionKind::EndText
            | AssertionKind::WordBoundary
            | AssertionKind::NotWordBoundary => 1,
            AssertionKind::WordBoundaryStart
            | AssertionKind::WordBoundaryEnd
            | AssertionKind::WordBoundaryStartAngle
            | AssertionKind::WordBoundaryEndAngle
            | AssertionKind::WordBoundaryStartHalf
            | AssertionKind::WordBoundaryEndHalf => return Err(UNKNOWN),
        },
        Ast::ClassUnicode(_) => return Err(UNKNOWN),
        Ast::ClassBracketed(class) => {
            let ClassSet::Item(item) = &class.kind else {
                return Err(UNKNOWN);
            };
            self::class(item)?;
            WIDE
        }
        Ast::Repetition(repetition) => {
            if matches!(*repetition.ast, Ast::Repetition(_)) {
                return Err("a regular expression repeats a repetition");
            }
            let most = match &repetition.op.kind {
                RepetitionKind::ZeroOrOne
                | RepetitionKind::ZeroOrMore
                | RepetitionKind::OneOrMore => 1,
                RepetitionKind::Range(
                    RepetitionRange::Exactly(most)
                    | RepetitionRange::AtLeast(most)
                    | RepetitionRange::Bounded(_, most),
                ) => *most,
            };
            // RE2 counts those of repetitions in each other together.
            let times = times.saturating_mul(most.max(1));
            if times > MOST_TIMES {
                return Err("a regular expression repeats something more than 1000 times");
            }
            let one = size(&repetition.ast, times)?;
            one.saturating_add(2).saturating_mul(most.max(1) + 1)
        }
        Ast::Group(group) => {
            match &group.kind {
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => {}
                GroupKind::NonCapturing(set) => flags(set)?,
            }
            if matches!(&group.kind, GroupKind::CaptureName { starts_with_p, .. } if !starts_with_p)
            {
                return Err(UNKNOWN);
            }
            size(&group.ast, times)?.saturating_add(2)
        }
        Ast::Alternation(any) => sum(&any.asts, times)?,
        Ast::Concat(all) => sum(&all.asts, times)?,
    };
    Ok(size)
}

fn sum(parts: &[Ast], times: u32) -> Result<u32, &'static str> {
    parts.iter().try_fold(1_u32, |sum, part| {
        Ok(sum.saturating_add(size(part, times)?.saturating_add(1)))
    })
}

fn flags(flags: &Flags) -> Result<(), &'static str> {
    let is_known = |kind: &FlagsItemKind| match kind {
        FlagsItemKind::Negation
        | FlagsItemKind::Flag(
            Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed,
        ) => true,
        FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace) => false,
    };
    if flags.items.iter().all(|item| is_known(&item.kind)) {
        Ok(())
    } else {
        Err(UNKNOWN)
    }
}

fn class(item: &ClassSetItem) -> Result<(), &'static str> {
    match item {
        ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) => Ok(()),
        ClassSetItem::Literal(one) => literal(&one.kind, one.c),
        ClassSetItem::Range(range) => {
            literal(&range.start.kind, range.start.c)?;
            literal(&range.end.kind, range.end.c)
        }
        ClassSetItem::Perl(perl) => match perl.kind {
            ClassPerlKind::Digit | ClassPerlKind::Space | ClassPerlKind::Word => Ok(()),
        },
        ClassSetItem::Union(union) => union.items.iter().try_for_each(class),
        ClassSetItem::Unicode(_) | ClassSetItem::Bracketed(_) => Err(UNKNOWN),
    }
}

fn literal(kind: &LiteralKind, c: char) -> Result<(), &'static str> {
    match kind {
        LiteralKind::Verbatim | LiteralKind::Meta => Ok(()),
        LiteralKind::Superfluous if c.is_ascii_punctuation() && c != '_' => Ok(()),
        LiteralKind::HexFixed(regex_syntax::ast::HexLiteralKind::X) if c.is_ascii() => Ok(()),
        LiteralKind::Special(
            SpecialLiteralKind::Bell
            | SpecialLiteralKind::FormFeed
            | SpecialLiteralKind::Tab
            | SpecialLiteralKind::LineFeed
            | SpecialLiteralKind::CarriageReturn
            | SpecialLiteralKind::VerticalTab,
        ) => Ok(()),
        LiteralKind::Superfluous
        | LiteralKind::Octal
        | LiteralKind::HexFixed(_)
        | LiteralKind::HexBrace(_)
        | LiteralKind::Special(SpecialLiteralKind::Space) => Err(UNKNOWN),
    }
}

/// A text as a regular expression that fits it alone.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if c.is_ascii_punctuation() && c != '_' {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

const UNKNOWN: &str = "a regular expression has something in it that Envoy does not know";

/// Characters.
const LONGEST: usize = 512;

/// How often RE2 repeats something at most.
const MOST_TIMES: u32 = 1_000;

/// What a class of characters becomes at most, about.
const WIDE: u32 = 12;

/// Instructions of the largest one, by the bound above. RE2 would take many times more.
const LARGEST: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_re2_knows_is_taken() {
        for good in [
            "/a/[0-9]+",
            "/api/v[12]/.*",
            "^/(a|b)?$",
            r"/\d{3}\.html",
            "(?i)/Photos/(?P<album>[[:alpha:]_-]+)",
            "a{1000}",
            "(?:x|)y*?",
            r"\x41\t",
            "[^/]+",
            "[]a]",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        for bad in [
            "",
            "(",
            "a**",
            "a{2}{3}",
            "a*+",
            "a{1001}",
            "(a{100}){100}",
            "(?=a)",
            r"(a)\1",
            "[a&&b]",
            "[a[bc]]",
            r"\p{Greek}",
            r"\b{start}",
            "(?x)a",
            "ä",
            r"\u0041",
            "a\nb",
            "((.{30}){30}){1}.{999}((.{30}){30})((.{30}){30})",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check(&"a".repeat(513)).is_err());
    }

    #[test]
    fn a_text_stands_for_itself() {
        assert_eq!(escaped("/a.b_c-1"), r"\/a\.b_c\-1");
    }
}
