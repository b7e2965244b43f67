//! Problems as people see them: what, evidence, consequence, what to do, code.

use kedge_core::{Problem, Severity};

use crate::style::{Style, clean};

/// A problem as text, each line ended.
#[must_use]
pub fn render(problem: &Problem, style: Style) -> String {
    let word = match problem.severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let word = style.severity(problem.severity, word);
    let mut text = format!("{word}: {}\n", style.bold(&headline(problem)));
    for evidence in &problem.evidence {
        // A piece of source keeps its lines and its indentation.
        for line in evidence.lines() {
            text.push_str(&format!("    {}\n", clean(line)));
        }
    }
    if !problem.consequence.is_empty() {
        text.push_str(&format!("  so: {}\n", clean(&problem.consequence)));
    }
    if let Some(fix) = &problem.fix {
        text.push_str(&format!("  fix: {}\n", clean(&fix.text)));
        if let Some(command) = &fix.command {
            text.push_str(&format!("       {}\n", style.bold(&clean(command))));
        }
    }
    text.push_str(&format!(
        "  {}\n",
        style.dim(&format!("{0}, more: kedge explain {0}", problem.code))
    ));
    text
}

/// What happened to what, in one line; the object only where the sentence does not name it.
#[must_use]
pub fn headline(problem: &Problem) -> String {
    let what = clean(&problem.what);
    if problem.object.is_empty() || problem.what.contains(&problem.object) {
        what.into_owned()
    } else {
        format!("{}: {what}", clean(&problem.object))
    }
}

/// Every problem, a blank line between two.
#[must_use]
pub fn render_all(problems: &[Problem], style: Style) -> String {
    problems
        .iter()
        .map(|problem| render(problem, style))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use kedge_core::{Code, Fix};

    use super::*;

    #[test]
    fn a_problem_has_one_shape() {
        let problem = Problem::new(
            Code::VipVridInUse,
            "VRID 252 is used by another router on eth0",
        )
        .object("vips/api")
        .evidence("advert from 00:1b:17:aa:20:01 (10.20.14.1) 0.4 s ago")
        .evidence("5 |     vrid: 252\n  |           ^^^")
        .consequence("the VIP is not claimed on this host")
        .fix(
            Fix::text("choose another VRID on every host of this group")
                .command("kedge config check"),
        );
        insta::assert_snapshot!(render(&problem, Style::PLAIN), @r"
        error: vips/api: VRID 252 is used by another router on eth0
            advert from 00:1b:17:aa:20:01 (10.20.14.1) 0.4 s ago
            5 |     vrid: 252
              |           ^^^
          so: the VIP is not claimed on this host
          fix: choose another VRID on every host of this group
               kedge config check
          KEDGE-VIP-0007, more: kedge explain KEDGE-VIP-0007
        ");
    }
}
