//! Enrolment tokens.

use kedge_control::local::{TokenCreated, TokenList};

use super::{Show, View};
use crate::table::Table;

impl Show for TokenList {
    fn text(&self, view: &View) -> String {
        let mut table = Table::new(&[
            "ID", "ROLE", "SCOPE", "BOUND-TO", "ENDS-IN", "USES", "STATE",
        ]);
        for token in &self.items {
            let bound = token
                .host_ref
                .as_ref()
                .map(|host| format!("{}/{}", host.kind, host.name));
            table.row([
                token.id.clone(),
                format!("{:?}", token.role),
                token.scope.clone(),
                bound.unwrap_or_default(),
                view.until(&token.expires).unwrap_or_default(),
                format!("{} of {}", token.uses, token.max_uses),
                token.state.clone(),
            ]);
        }
        table.render() + &view.next(&["kedge token create --tenant TENANT".to_owned()])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|token| token.id.clone()).collect()
    }
}

impl Show for TokenCreated {
    /// The token alone, fit for `> file`.
    fn text(&self, _: &View) -> String {
        format!("{}\n", self.token)
    }

    fn names(&self) -> Vec<String> {
        vec![self.summary.id.clone()]
    }
}
