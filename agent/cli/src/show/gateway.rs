//! A gateway that sends its hosts elsewhere.

use kedge_control::local::GatewayDrain;

use super::{Show, View};
use crate::style::Mark;

impl Show for GatewayDrain {
    fn text(&self, view: &View) -> String {
        let Self { hosts, waiting, .. } = self;
        let (mark, what) = match (self.draining, *waiting) {
            (false, _) => (
                Mark::Good,
                format!("this gateway serves; {hosts} hosts speak BFD with it"),
            ),
            (true, 0) => (
                Mark::Good,
                format!("this gateway drains; all of {hosts} hosts have heard it"),
            ),
            (true, _) => (
                Mark::Warning,
                format!("this gateway drains; {waiting} of {hosts} hosts have not heard it yet"),
            ),
        };
        let next = if self.draining {
            "kedge gateway undrain"
        } else {
            "kedge status gateway"
        };
        format!("{} {what}\n", view.style.mark(mark)) + &view.next(&[next.to_owned()])
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
