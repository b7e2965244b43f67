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
    let (space, name) = match wanted.rsplit_once('/') {
        Some((space, name)) => (Some(space), name),
        None => (None, wanted),
    };
    // Of each kind there may be one of a name: `KIND/NAMESPACE/NAME` says which.
    let (kind, space) = match space.and_then(|space| space.split_once('/')) {
        Some((kind, space)) => (Some(kind), Some(space)),
        None => (None, space),
    };
    let is_meant = |it: &FleetLoadBalancer| {
        it.name == name
            && space.is_none_or(|space| it.namespace == space)
            && kind.is_none_or(|kind| kind_of(it).eq_ignore_ascii_case(kind))
    };
    let mut meant = list.items.into_iter().filter(is_meant);
    let fix = Fix::text("use a name from the list").command("kedge lb list");
    let shown = wanted.escape_debug();
    match (meant.next(), meant.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => {
            let what = format!("the manager has no load balancer {shown}");
            Err(Problem::new(Code::ApiNotFound, what).fix(fix))
        }
        (Some(one), Some(other)) => {
            let what = format!("several load balancers are called {shown}");
            let whole = |it: &FleetLoadBalancer| match one.namespace == other.namespace {
                true => format!("{}/{}/{name}", kind_of(it), it.namespace),
                false => format!("{}/{name}", it.namespace),
            };
            let evidence = format!("{} and {}", whole(&one), whole(&other));
            let fix = Fix::text("say which").command(format!("kedge lb show {}", whole(&one)));
            Err(Problem::new(Code::SysUsage, what)
                .evidence(evidence)
                .fix(fix))
        }
    }
}

/// What it is; managers before there were two kinds do not say.
fn kind_of(it: &FleetLoadBalancer) -> &str {
    match it.kind.as_str() {
        "" => "TCPLoadBalancer",
        kind => kind,
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
        let mut both = list(&[("a", "web"), ("a", "web")]);
        "HTTPLoadBalancer".clone_into(&mut both.items[1].kind);
        let several = one(both.clone(), "a/web").unwrap_err();
        let evidence = "TCPLoadBalancer/a/web and HTTPLoadBalancer/a/web";
        assert_eq!(several.evidence, [evidence]);
        let http = one(both, "httploadbalancer/a/web").map(|it| it.kind);
        assert_eq!(http, Ok("HTTPLoadBalancer".to_owned()));
        for nobody in ["c/web", "mail", "", "HTTPLoadBalancer/a/web"] {
            assert_eq!(one(all(), nobody).unwrap_err().code, Code::ApiNotFound);
        }
    }
}
