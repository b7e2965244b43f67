//! Giving VIPs away: one, or all that this host holds.

use std::time::Instant;

use kedge_control::local::{DrainOrder, Order, OrderRequest, Vip, VipList, VipOrder};
use kedge_core::vip::RouterState;
use kedge_host::Role;

use super::{
    order::{ask, once, wait},
    segment, show,
};
use crate::{
    App,
    args::{OnceArgs, ReleaseArgs},
    client::{Answer, Failure},
    confirm,
    exit::Exit,
    show::own,
};

/// `kedge vip release`.
pub(super) fn release(app: &App, args: &ReleaseArgs) -> Result<Exit, Failure> {
    let Some(name) = &args.name else {
        return all(app, args);
    };
    let one = OnceArgs {
        name: name.clone(),
        dry_run: args.dry_run,
        yes: args.yes,
    };
    once(app, &one, Order::Release, None)
}

fn all(app: &App, args: &ReleaseArgs) -> Result<Exit, Failure> {
    let vips: Answer<VipList> = app.client(Role::Agent).get("/v1/vips")?;
    let held = vips.body.items.into_iter();
    let held: Vec<Vip> = held
        .filter(|vip| vip.state == RouterState::Active)
        .collect();
    if held.is_empty() {
        let nothing = DrainOrder {
            order: Order::Release,
            plan: vec!["this host holds no VIP".to_owned()],
            ..DrainOrder::default()
        };
        return show(app, &own(&nothing)?, Exit::Ok);
    }
    if !args.yes && !args.dry_run {
        if !confirm::can_be_asked() {
            return Err(confirm::unasked("kedge vip release --all").into());
        }
        let (planned, _) = tell(app, &held, true)?;
        for line in planned.iter().flat_map(|item| &item.plan) {
            say!("{line}");
        }
        if !confirm::is_meant("Do it?") {
            return Ok(Exit::Ok);
        }
    }
    let (items, mut exit) = tell(app, &held, args.dry_run)?;
    let mut told = DrainOrder {
        order: Order::Release,
        given: !args.dry_run,
        plan: Vec::new(),
        items,
    };
    let until = Instant::now() + app.global.limit();
    for item in told.items.iter_mut().filter(|item| item.given) {
        item.outcome = wait(app, item, until)?;
        exit = exit.max(match &item.outcome {
            Some(outcome) if outcome.moved => Exit::Ok,
            Some(_) => Exit::Failure,
            None => Exit::TimedOut,
        });
    }
    show(app, &own(&told)?, exit)
}

/// Tells each VIP to leave, or asks what that would do. One that has left meanwhile, with another of its
/// group, need not be told; one that may not leave says why, and keeps none of the others here.
fn tell(app: &App, held: &[Vip], dry_run: bool) -> Result<(Vec<VipOrder>, Exit), Failure> {
    let request = OrderRequest {
        dry_run,
        ..OrderRequest::default()
    };
    let (mut told, mut exit) = (Vec::new(), Exit::Ok);
    for vip in held {
        match ask(app, &vip.name, Order::Release, &request) {
            Ok(answer) => told.push(answer.body),
            Err(failure) if is_held(app, &vip.name)? => {
                exit = exit.max(failure.exit);
                told.push(VipOrder {
                    vip: vip.name.clone(),
                    order: Order::Release,
                    plan: vec![failure.problem.what],
                    state: vip.state,
                    ..VipOrder::default()
                });
            }
            Err(_) => {}
        }
    }
    Ok((told, exit))
}

fn is_held(app: &App, name: &str) -> Result<bool, Failure> {
    let path = format!("/v1/vips/{}", segment(name)?);
    let vip: Answer<Vip> = app.client(Role::Agent).get(&path)?;
    Ok(vip.body.state == RouterState::Active)
}
