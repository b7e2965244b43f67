//! Enrolment: tokens, hosts that wait for a word, and the authority behind it all.

use kedge_control::local::{
    Approval, AuthorityRotation, HostApproval, TokenCreated, TokenList, TokenSummary,
};

use super::{Show, View};
use crate::table::Table;

impl Show for TokenList {
    fn text(&self, view: &View) -> String {
        let mut table = Table::new(&[
            "ID", "ROLE", "SCOPE", "BOUND-TO", "ENDS-IN", "USES", "STATE",
        ]);
        for token in &self.items {
            table.row([
                token.id.clone(),
                format!("{:?}", token.role),
                token.scope.clone(),
                bound(token),
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

/// All that a host must be or say, in one cell.
fn bound(token: &TokenSummary) -> String {
    let to = &token.bound_to;
    let host = token
        .host_ref
        .as_ref()
        .map(|host| format!("{}/{}", host.kind, host.name));
    let said = |what: &str, value: &Option<String>| {
        let value = value.as_ref();
        value.map(|value| format!("{what}={value}"))
    };
    let all = [
        host,
        said("machine-id", &to.machine_id),
        said("serial", &to.serial),
        said("mac", &to.mac),
        said("hostname", &to.hostname_regex),
        (token.approval == Some(Approval::Manual)).then(|| "approval".to_owned()),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(" ")
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

impl Show for HostApproval {
    fn text(&self, view: &View) -> String {
        let state = if self.approved { "approved" } else { "waiting" };
        let mut table = Table::new(&["NAMESPACE", "NAME", "TENANT", "KEY", "WAITS", "STATE"]);
        table.row([
            self.namespace.clone(),
            self.name.clone(),
            self.tenant.clone(),
            self.key_hash.clone(),
            view.age(&self.since),
            state.to_owned(),
        ]);
        let next = if self.approved {
            "kedge fleet hosts  (the host asks again by itself)".to_owned()
        } else {
            format!(
                "kedge fleet approve {}/{} --key {}",
                self.namespace, self.name, self.key_hash
            )
        };
        table.render() + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        vec![format!("{}/{}", self.namespace, self.name)]
    }
}

impl Show for AuthorityRotation {
    fn text(&self, view: &View) -> String {
        let mut table = Table::new(&["FROM", "TO", "BOTH-TRUSTED-FOR"]);
        table.row([
            self.from.clone(),
            self.to.clone().unwrap_or_default(),
            view.until(&self.until).unwrap_or_default(),
        ]);
        let next = match &self.to {
            Some(_) => "kedge fleet hosts",
            None => "kedge fleet rotate-ca --yes  (and the same --overlap)",
        };
        table.render() + &view.next(&[next.to_owned()])
    }

    fn names(&self) -> Vec<String> {
        self.to.iter().cloned().collect()
    }
}
