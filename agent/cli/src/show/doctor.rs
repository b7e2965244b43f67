//! What a host is like.

use kedge_control::local::HostCheck;

use super::{Show, View, net};
use crate::style::clean;

impl Show for HostCheck {
    fn text(&self, view: &View) -> String {
        let mut text = String::new();
        for item in &self.items {
            text.push_str(&format!(
                "{} {:<10} {}\n",
                net::mark(item.state, view),
                clean(&item.name),
                clean(&item.because)
            ));
            for more in std::iter::once(&item.consequence).chain(&item.fix) {
                if !more.is_empty() {
                    text.push_str(&format!("    {} {}\n", view.style.hook(), clean(more)));
                }
            }
        }
        text + &view.next(&["kedge status".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|item| item.name.clone()).collect()
    }
}
