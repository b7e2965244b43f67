//! `kedge explain`: the pages of the error codes, offline.

use kedge_core::{Code, Fix, Problem};
use serde_json::json;

use crate::{args::Format, client::Failure, show, style::Style, table::Table};

/// The page of a code, or the list of all.
///
/// # Errors
///
/// No error has that code.
pub fn explain(code: Option<&str>, format: Format, style: Style) -> Result<String, Failure> {
    match code {
        Some(code) => page(find(code)?, format, style),
        None => list(format),
    }
}

fn find(text: &str) -> Result<Code, Failure> {
    text.parse().map_err(|error| {
        let problem = Problem::new(Code::SysUnknownCode, format!("{error}"))
            .consequence("there is no page to show");
        let fix = match closest(text) {
            Some(code) => Fix::text(format!("did you mean {code}, {}?", code.title()))
                .command(format!("kedge explain {code}")),
            None => Fix::text("see every code").command("kedge explain"),
        };
        problem.fix(fix).into()
    })
}

/// A code of the same area with the nearest number, or of the same number.
fn closest(text: &str) -> Option<Code> {
    let upper = text.trim().to_ascii_uppercase();
    let rest = upper.strip_prefix("KEDGE-").unwrap_or(&upper);
    let (area, number) = rest.split_once('-').unwrap_or((rest, ""));
    let number: u16 = number.parse().unwrap_or(0);
    Code::ALL
        .iter()
        .filter(|code| code.area().as_str() == area)
        .min_by_key(|code| code.number().abs_diff(number))
        .copied()
}

fn page(code: Code, format: Format, style: Style) -> Result<String, Failure> {
    match format {
        Format::Table | Format::Wide => Ok(for_people(code.page(), style)),
        Format::Name => Ok(format!("{code}\n")),
        data => show::data(
            &json!({
                "apiVersion": kedge_control::CLI_VERSION,
                "kind": "Explanation",
                "code": code,
                "title": code.title(),
                "page": code.page(),
            }),
            data,
        ),
    }
}

fn for_people(page: &str, style: Style) -> String {
    page.lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) => {
                let title = rest.trim_start_matches('#').trim_start();
                format!("{}\n", style.bold(title))
            }
            None => format!("{line}\n"),
        })
        .collect()
}

fn list(format: Format) -> Result<String, Failure> {
    match format {
        Format::Table | Format::Wide => {
            let mut table = Table::new(&["CODE", "MEANS"]);
            for code in Code::ALL {
                table.row([code.to_string(), code.title().to_owned()]);
            }
            Ok(table.render())
        }
        Format::Name => Ok(Code::ALL.iter().map(|code| format!("{code}\n")).collect()),
        data => {
            let items: Vec<_> = Code::ALL
                .iter()
                .map(|code| json!({ "code": code, "title": code.title() }))
                .collect();
            let document = json!({
                "apiVersion": kedge_control::CLI_VERSION,
                "kind": "ExplanationList",
                "items": items,
            });
            show::data(&document, data)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_however_the_code_is_written() {
        let page = |code| explain(Some(code), Format::Table, Style::PLAIN).unwrap();
        assert!(page("KEDGE-VIP-0007").starts_with("KEDGE-VIP-0007: "));
        assert_eq!(page("vip-7"), page("KEDGE-VIP-0007"));
        assert!(!page("vip-7").contains("##"));
    }

    #[test]
    fn a_code_that_does_not_exist_leads_to_its_neighbour() {
        let failure = explain(Some("KEDGE-VIP-0099"), Format::Table, Style::PLAIN).unwrap_err();
        assert_eq!(failure.problem.code, Code::SysUnknownCode);
        assert!(failure.problem.fix.unwrap().text.contains("KEDGE-VIP-"));
        let failure = explain(Some("nonsense"), Format::Table, Style::PLAIN).unwrap_err();
        assert_eq!(
            failure.problem.fix.unwrap().command.as_deref(),
            Some("kedge explain")
        );
    }
}
