//! The report as people read it, on stderr.

use super::report::{Item, Report, Verdict};
use crate::style::{Mark, Style, clean};

/// The report, grouped by what became of the settings; `brief` leaves out what was taken over.
pub(super) fn text(report: &Report, brief: bool, style: Style) -> String {
    let mut text = String::new();
    for verdict in Verdict::ALL {
        if report.count(verdict) == 0 || (brief && verdict == Verdict::TakenOver) {
            continue;
        }
        text.push_str(&format!("{}\n", style.bold(verdict.heading())));
        let mut items = report.of(verdict).peekable();
        while let Some(item) = items.next() {
            text.push_str(&line(item, style));
            // What follows from several settings in a row is said once, below the last.
            let goes_on = items
                .peek()
                .is_some_and(|next| next.consequence == item.consequence);
            if !item.consequence.is_empty() && !goes_on {
                let (hook, consequence) = (style.hook(), clean(&item.consequence));
                text.push_str(&format!("      {hook} {consequence}\n"));
            }
        }
    }
    if !report.steps.is_empty() {
        text.push_str(&format!("{}\n", style.bold("Before you switch")));
        for step in &report.steps {
            text.push_str(&format!("  - {}\n", clean(step)));
        }
    }
    let counts = Verdict::ALL.map(|verdict| {
        let count = report.count(verdict);
        format!("{count} {}", verdict.heading().to_lowercase())
    });
    text.push_str(&format!("{}\n", counts.join(", ")));
    style.fit(text)
}

fn line(item: &Item, style: Style) -> String {
    let mark = style.mark(match item.verdict {
        Verdict::TakenOver => Mark::Good,
        Verdict::Different => Mark::Warning,
        Verdict::NoEquivalent => Mark::Bad,
    });
    let place = item.place.to_string();
    let mut text = format!("  {mark} {}  {}", clean(&place), clean(&item.what));
    if !item.key.is_empty() {
        text.push_str(&style.dim(&format!("  {}", clean(&item.key))));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::report::Place;

    #[test]
    fn settings_are_grouped_and_nothing_draws() {
        let place = |line| Place {
            file: "a.conf".into(),
            line,
        };
        let mut report = Report::default();
        report.missing(&place(3), "notify", "the script is not run");
        report.taken(&place(1), "priority 150", "vips.a.priority");
        report.different(&place(2), "state \x1b[31m", "", "Kedge starts as Backup");
        report.step("stop keepalived first");
        insta::assert_snapshot!(text(&report, false, Style::PLAIN), @r"
        Taken over
          * a.conf:1  priority 150  vips.a.priority
        Different
          ! a.conf:2  state \u{1b}[31m
              `-> Kedge starts as Backup
        No equivalent
          x a.conf:3  notify
              `-> the script is not run
        Before you switch
          - stop keepalived first
        1 taken over, 1 different, 1 no equivalent
        ");
        assert!(!text(&report, true, Style::PLAIN).contains("priority"));
    }
}
