//! Orders to the VIPs of this host, and what comes of them.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use kedge_control::local::{
    DrainOrder, Order, OrderOutcome, OrderRequest, VipExplanation, VipOrder,
};
use kedge_core::{Code, Fix, Problem, Span, vip::RouterState};
use kedge_host::Role;

use super::{segment, show};
use crate::{
    App,
    args::{DrainArgs, Format, FreezeArgs, MoveArgs, OnceArgs, ThawArgs, UndrainArgs},
    client::{Answer, Failure},
    confirm,
    exit::Exit,
    show::own,
};

/// `kedge vip move`.
pub(super) fn bring_here(app: &App, args: &MoveArgs) -> Result<Exit, Failure> {
    once(app, &args.once, Order::Move, args.host.clone())
}

/// `kedge vip freeze`.
pub(super) fn freeze(app: &App, args: &FreezeArgs) -> Result<Exit, Failure> {
    let request = OrderRequest {
        dry_run: args.dry_run,
        for_seconds: Some(args.span.duration().as_secs()),
        host: None,
    };
    show(
        app,
        &ask(app, &args.name, Order::Freeze, &request)?,
        Exit::Ok,
    )
}

/// `kedge vip thaw`.
pub(super) fn thaw(app: &App, args: &ThawArgs) -> Result<Exit, Failure> {
    let request = OrderRequest {
        dry_run: args.dry_run,
        ..OrderRequest::default()
    };
    show(app, &ask(app, &args.name, Order::Thaw, &request)?, Exit::Ok)
}

/// `kedge drain`.
pub(super) fn drain(app: &App, args: &DrainArgs) -> Result<Exit, Failure> {
    let client = app.client(Role::Agent);
    let ask = |dry_run| -> Result<Answer<DrainOrder>, Failure> {
        let request = OrderRequest {
            dry_run,
            ..OrderRequest::default()
        };
        client.post("/v1/drain", &request)
    };
    if args.dry_run {
        return show(app, &ask(true)?, Exit::Ok);
    }
    if !args.yes {
        if !confirm::can_be_asked() {
            return Err(confirm::unasked("kedge drain").into());
        }
        let answer = ask(true)?;
        let items = answer.body.items.iter().flat_map(|item| &item.plan);
        for line in answer.body.plan.iter().chain(items) {
            say!("{line}");
        }
        if !confirm::is_meant("Drain this host?") {
            return Ok(Exit::Ok);
        }
    }
    let mut drained = ask(false)?.body;
    let mut exit = Exit::Ok;
    if args.wait && drained.given {
        let until = Instant::now() + app.global.limit();
        for item in drained.items.iter_mut().filter(|item| leaves(item)) {
            match wait(app, item, until)? {
                Some(outcome) => {
                    if !outcome.moved {
                        exit = exit.max(Exit::Failure);
                    }
                    item.outcome = Some(outcome);
                }
                None => exit = exit.max(Exit::TimedOut),
            }
        }
    }
    show(app, &own(&drained)?, exit)
}

/// `kedge undrain`.
pub(super) fn undrain(app: &App, args: &UndrainArgs) -> Result<Exit, Failure> {
    let request = OrderRequest {
        dry_run: args.dry_run,
        ..OrderRequest::default()
    };
    let answer: Answer<DrainOrder> = app.client(Role::Agent).post("/v1/undrain", &request)?;
    show(app, &answer, Exit::Ok)
}

/// Gives an order that acts at once, and waits for what comes of it.
pub(super) fn once(
    app: &App,
    args: &OnceArgs,
    order: Order,
    host: Option<String>,
) -> Result<Exit, Failure> {
    let mut request = OrderRequest {
        dry_run: args.dry_run,
        for_seconds: None,
        host,
    };
    if !args.yes && !args.dry_run {
        if !confirm::can_be_asked() {
            return Err(confirm::unasked(&format!("kedge vip {order} {}", args.name)).into());
        }
        request.dry_run = true;
        let planned = ask(app, &args.name, order, &request)?;
        for line in &planned.body.plan {
            say!("{line}");
        }
        if !confirm::is_meant("Do it?") {
            return Ok(Exit::Ok);
        }
        request.dry_run = false;
    }
    let mut told = ask(app, &args.name, order, &request)?.body;
    if !told.given {
        return show(app, &own(&told)?, Exit::Ok);
    }
    let limit = app.global.limit();
    told.outcome = wait(app, &told, Instant::now() + limit)?;
    let (exit, problem) = match &told.outcome {
        Some(outcome) if outcome.moved => (Exit::Ok, None),
        Some(outcome) => (Exit::Failure, Some(not_moved(&told, &outcome.because))),
        None => {
            let span = Span::new(limit);
            let because = format!("the order is {span} old and nothing has come of it");
            (Exit::TimedOut, Some(not_moved(&told, &because)))
        }
    };
    let exit = show(app, &own(&told)?, exit)?;
    if let (Some(problem), Format::Table | Format::Wide | Format::Name) = (problem, app.format) {
        app.tell(&problem);
    }
    Ok(exit)
}

pub(super) fn ask(
    app: &App,
    name: &str,
    order: Order,
    request: &OrderRequest,
) -> Result<Answer<VipOrder>, Failure> {
    let path = format!("/v1/vips/{}/{order}", segment(name)?);
    app.client(Role::Agent).post(&path, request)
}

/// Waits for what comes of an order; `None` when the time has passed.
pub(super) fn wait(
    app: &App,
    order: &VipOrder,
    until: Instant,
) -> Result<Option<OrderOutcome>, Failure> {
    let path = format!("/v1/vips/{}/explain", segment(&order.vip)?);
    loop {
        let seen: Answer<VipExplanation> = app.client(Role::Agent).get(&path)?;
        if let Some(outcome) = outcome(order, &seen.body) {
            return Ok(Some(outcome));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        sleep(left.min(PAUSE));
    }
}

/// Whether an order to drain moves this VIP.
fn leaves(item: &VipOrder) -> bool {
    matches!(item.state, RouterState::Active)
}

/// What came of an order, once its end is seen.
fn outcome(order: &VipOrder, seen: &VipExplanation) -> Option<OrderOutcome> {
    let since = order.boottime_micros;
    let after = seen.transitions.iter();
    let mut after = after.filter(|change| change.boottime_micros >= since);
    let here = || "this host".to_owned();
    let comes_here = order.order == Order::Move && order.to.is_none();
    let (end, moved, holder) = if comes_here {
        let taken = after.find(|change| change.to == RouterState::Active)?;
        (taken, seen.vip.state == RouterState::Active, here())
    } else {
        let end = after.find(|change| change.from == RouterState::Releasing)?;
        let holder = seen
            .vip
            .active
            .as_ref()
            .map(|peer| peer.address.to_string());
        match end.to {
            RouterState::Backup => {
                let holder = holder.unwrap_or_default();
                let meant = order.to.is_none_or(|to| holder == to.to_string());
                (end, meant, holder)
            }
            RouterState::Active => (end, false, here()),
            RouterState::Initialize | RouterState::Fault => {
                (end, false, holder.unwrap_or_default())
            }
            RouterState::Releasing => return None,
        }
    };
    let micros = end.boottime_micros.saturating_sub(since);
    let took = Duration::from_micros(micros);
    let because = match (order.order, end.to) {
        (Order::Move, _) if comes_here => end.because.clone(),
        (_, RouterState::Backup) => format!(
            "{}, and this host answered until then, for {:.1} ms",
            end.because,
            took.as_secs_f64() * 1_000.0
        ),
        (_, RouterState::Active) => {
            format!("{}, so it is held here again", end.because)
        }
        _ => end.because.clone(),
    };
    Some(OrderOutcome {
        moved,
        holder,
        because,
        took_seconds: took.as_secs_f64(),
    })
}

fn not_moved(order: &VipOrder, because: &str) -> Problem {
    let vip = &order.vip;
    let (what, consequence) = match order.order {
        Order::Move if order.to.is_none() => {
            (format!("{vip} did not come here"), "it is where it was")
        }
        _ => (
            match order.to {
                Some(to) => format!("{vip} did not go to {to}"),
                None => format!("{vip} did not leave this host"),
            },
            "it is served, here or elsewhere",
        ),
    };
    Problem::new(Code::VipNotMoved, what)
        .object(format!("vips/{vip}"))
        .evidence(because)
        .consequence(consequence)
        .fix(Fix::text("see who else is there").command(format!("kedge vip history {vip}")))
}

const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use kedge_control::local::Transition;

    use super::*;
    use crate::show::samples;

    fn change(micros: u64, from: RouterState, to: RouterState, because: &str) -> Transition {
        Transition {
            at: String::new(),
            boottime_micros: micros,
            from,
            to,
            because: because.to_owned(),
        }
    }

    fn seen(transitions: Vec<Transition>) -> VipExplanation {
        VipExplanation {
            vip: samples::backup_vip(),
            transitions,
            ..samples::explanation()
        }
    }

    fn order(order: Order) -> VipOrder {
        VipOrder {
            vip: "api".to_owned(),
            order,
            boottime_micros: 1_000,
            ..VipOrder::default()
        }
    }

    #[test]
    fn a_release_ends_when_the_host_is_backup_or_holds_it_again() {
        use RouterState::{Active, Backup, Releasing};
        let release = order(Order::Release);
        let before = change(900, Releasing, Active, "an older one");
        let begun = change(1_100, Active, Releasing, "the VIP is being handed over");
        assert_eq!(outcome(&release, &seen(vec![before.clone()])), None);
        let under_way = seen(vec![before.clone(), begun.clone()]);
        assert_eq!(outcome(&release, &under_way), None);
        let given = change(
            24_400,
            Releasing,
            Backup,
            "10.20.14.12 (priority 253) took over",
        );
        let end = outcome(&release, &seen(vec![before, begun.clone(), given])).unwrap();
        assert_eq!((end.moved, end.holder.as_str()), (true, "10.20.14.12"));
        assert_eq!(
            end.because,
            "10.20.14.12 (priority 253) took over, and this host answered until then, for 23.4 ms"
        );
        let kept = change(401_000, Releasing, Active, "no other router took over");
        let end = outcome(&release, &seen(vec![begun, kept])).unwrap();
        assert_eq!((end.moved, end.holder.as_str()), (false, "this host"));
        assert!(end.took_seconds > 0.399 && end.took_seconds < 0.401);
    }

    #[test]
    fn a_move_ends_when_the_host_is_active() {
        use RouterState::{Active, Backup};
        let taken = change(15_000, Backup, Active, "the operator asked to have it here");
        let bring = order(Order::Move);
        assert_eq!(outcome(&bring, &seen(Vec::new())), None);
        let mut seen = seen(vec![taken]);
        seen.vip = samples::active_vip();
        let end = outcome(&bring, &seen).unwrap();
        assert_eq!((end.moved, end.holder.as_str()), (true, "this host"));
    }
}
