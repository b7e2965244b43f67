//! What the network lets through.

use kedge_control::local::{NetCheck, NetState};

use super::{Show, View};
use crate::style::{Mark, clean};

impl Show for NetCheck {
    fn text(&self, view: &View) -> String {
        let mut text = String::new();
        for item in &self.items {
            text.push_str(&format!(
                "{} {}  {}  {}\n",
                mark(item.state, view),
                view.style.bold(&clean(&item.name)),
                clean(&item.endpoint),
                clean(&item.because)
            ));
            for step in &item.steps {
                text.push_str(&format!(
                    "    {} {:<5}  {}\n",
                    mark(step.state, view),
                    clean(&step.step),
                    clean(&step.because)
                ));
            }
            if let Some(fix) = &item.fix {
                text.push_str(&format!("    {} {}\n", view.style.hook(), clean(fix)));
            }
        }
        let bad = self.items.iter().find(|item| item.state > NetState::Ok);
        text + &view.next(&[match bad {
            Some(item) if item.name != "manager" => {
                format!("kedge tunnel show {}", clean(&item.name))
            }
            _ => "kedge status".to_owned(),
        }])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|item| item.name.clone()).collect()
    }
}

pub(super) fn mark(state: NetState, view: &View) -> String {
    view.style.mark(match state {
        NetState::Skipped => Mark::Idle,
        NetState::Ok => Mark::Good,
        NetState::Warning => Mark::Warning,
        NetState::Failed => Mark::Bad,
    })
}
