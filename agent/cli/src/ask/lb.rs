//! `kedge lb …`.

use kedge_control::local::{FleetLoadBalancer, FleetLoadBalancerList};
use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;

use super::{get, show};
use crate::{
    App,
    args::LbCommand,
    client::{Answer, Failure},
    exit::Exit,
    show::{Explained, own},
};

/// Asks the manager.
///
/// # Errors
///
/// There is nobody to ask, or no such load balancer, or several.
pub fn run(app: &App, command: &LbCommand) -> Result<Exit, Failure> {
    match command {
        LbCommand::List => get::<FleetLoadBalancerList>(app, Role::Manager, ROUTE),
        LbCommand::Show(args) => show(app, &own(&find(app, &args.name)?)?, Exit::Ok),
        LbCommand::Explain(args) => {
            let answer = own(&find(app, &args.name)?)?;
            show(app, &answer.shown_as(Explained), Exit::Ok)
        }
    }
}

fn find(app: &App, wanted: &str) -> Result<FleetLoadBalancer, Failure> {
    let answer: Answer<FleetLoadBalancerList> = app.client(Role::Manager).get(ROUTE)?;
    one(answer.body, wanted).map_err(Into::into)
}

/// The one that is meant.
fn one(list: FleetLoadBalancerList, wanted: &str) -> Result<FleetLoadBalancer, Problem> {
    let (space, name) = match wanted.split_once('/') {
        Some((space, name)) => (Some(space), name),
        None => (None, wanted),
    };
    let is_meant =
        |it: &FleetLoadBalancer| it.name == name && space.is_none_or(|space| it.namespace == space);
    let mut meant = list.items.into_iter().filter(is_meant);
    let fix = Fix::text("use a name from the list").command("kedge lb list");
    let shown = wanted.escape_debug();
    match (meant.next(), meant.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => {
            let what = format!("the manager has no TCPLoadBalancer {shown}");
            Err(Problem::new(Code::ApiNotFound, what).fix(fix))
        }
        (Some(one), Some(other)) => {
            let what = format!("several TCPLoadBalancers are called {shown}");
            let evidence = format!("{}/{name} and {}/{name}", one.namespace, other.namespace);
            let fix =
                Fix::text("say which").command(format!("kedge lb show {}/{name}", one.namespace));
            Err(Problem::new(Code::SysUsage, what)
                .evidence(evidence)
                .fix(fix))
        }
    }
}

const ROUTE: &str = "/v1/fleet/loadbalancers";

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[(&str, &str)]) -> FleetLoadBalancerList {
        let items = names.iter().map(|(space, name)| FleetLoadBalancer {
            namespace: (*space).to_owned(),
            name: (*name).to_owned(),
            ..FleetLoadBalancer::default()
        });
        FleetLoadBalancerList {
            items: items.collect(),
        }
    }

    #[test]
    fn a_name_is_enough_where_one_has_it() {
        let all = || list(&[("a", "web"), ("b", "web"), ("b", "dns")]);
        assert_eq!(one(all(), "dns").map(|it| it.namespace), Ok("b".to_owned()));
        assert_eq!(
            one(all(), "a/web").map(|it| it.namespace),
            Ok("a".to_owned())
        );
        let several = one(all(), "web").unwrap_err();
        assert_eq!(several.code, Code::SysUsage);
        for nobody in ["c/web", "mail", ""] {
            assert_eq!(one(all(), nobody).unwrap_err().code, Code::ApiNotFound);
        }
    }
}
