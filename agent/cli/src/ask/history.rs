//! `kedge vip history`: what happened to the VIPs of this host.

use jiff::Timestamp;
use kedge_control::local::History;
use kedge_host::Role;

use super::{segment, show as write};
use crate::{
    App,
    args::HistoryArgs,
    client::{Answer, Failure},
    exit::Exit,
    show::own,
};

/// Shows it, as much as was asked for.
pub(super) fn show(app: &App, args: &HistoryArgs) -> Result<Exit, Failure> {
    let path = match &args.name {
        Some(name) => format!("/v1/vips/{}/history", segment(name)?),
        None => "/v1/history".to_owned(),
    };
    let answer: Answer<History> = app.client(Role::Agent).get(&path)?;
    if args.since.is_none() && args.last.is_none() {
        return write(app, &answer, Exit::Ok);
    }
    let mut history = answer.body;
    cut(&mut history, args, app.view.now);
    write(app, &own(&history)?, Exit::Ok)
}

fn cut(history: &mut History, args: &HistoryArgs, now: Timestamp) {
    if let Some(since) = args.since {
        let from = now.checked_sub(since.duration()).unwrap_or(Timestamp::MIN);
        let young = |at: &str| at.parse::<Timestamp>().is_ok_and(|at| at >= from);
        history.items.retain(|item| young(&item.at));
    }
    if let Some(last) = args.last {
        let surplus = history.items.len().saturating_sub(usize::from(last));
        history.items.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use kedge_control::local::HistoryItem;
    use kedge_core::Span;

    use super::*;

    #[test]
    fn the_newest_stay() {
        let item = |at: &str| HistoryItem {
            vip: "api".to_owned(),
            at: at.to_owned(),
            boottime_micros: 1,
            this_boot: true,
            from: None,
            to: None,
            because: String::new(),
        };
        let all = History {
            host: "edge-a".to_owned(),
            items: vec![
                item("2026-11-21T08:00:00.000001Z"),
                item("2026-11-21T09:59:00.000000Z"),
                item("2026-11-21T09:59:59.000000Z"),
            ],
        };
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let left = |since: Option<u64>, last| {
            let mut history = all.clone();
            let since = since.map(Span::from_secs);
            let args = HistoryArgs {
                name: None,
                since,
                last,
            };
            cut(&mut history, &args, now);
            history.items.len()
        };
        assert_eq!(left(Some(60), None), 2);
        assert_eq!(left(None, Some(1)), 1);
        assert_eq!(left(Some(1), Some(5)), 1);
        assert_eq!(left(None, Some(99)), 3);
    }
}
