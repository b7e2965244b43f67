//! The operator's orders to this host's VIPs: whether they can be given, and what they do.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use kedge_control::local::{DrainOrder, History, Order, OrderRequest, Timeline, VipOrder};
use kedge_core::{Code, Fix, Instant, Name, Problem, vip::RouterState};
use kedge_host::wall;
use kedge_net::clock;
use kedge_vip_speaker::{self as speaker, Reject, VipSnapshot};
use tokio::sync::oneshot;
use tracing::info;

use crate::{
    agent::Agent,
    status::{holds, spoken},
    succession::Asked,
    timeline::timeline,
};

/// An order that was accepted, and the routers' answer to it if they were asked.
#[derive(Debug)]
pub(crate) struct Begun {
    pub order: VipOrder,
    pub answer: Option<oneshot::Receiver<Result<(), Reject>>>,
    /// Who has to agree before it is given.
    pub asked: Option<Asked>,
}

impl Agent {
    /// Gives a VIP to another host, or brings it here.
    ///
    /// # Errors
    ///
    /// This host cannot: the problem says why.
    pub fn once(
        &mut self,
        vip: &VipSnapshot,
        order: Order,
        request: &OrderRequest,
    ) -> Result<Begun, Problem> {
        let frozen = self.orders.frozen(vip.name.as_str());
        let frozen = frozen.map(|frozen| frozen.until);
        let told = match order {
            Order::Release => release(vip, frozen.as_deref()),
            _ => {
                if let Some(host) = request.host.as_deref().filter(|host| !self.is_me(host)) {
                    return self.send_to(vip, host, frozen.as_deref(), request.dry_run);
                }
                bring_here(vip, frozen.as_deref())
            }
        };
        let plan = told?;
        let given = !request.dry_run && plan.acts;
        let mut begun = Begun {
            order: vip_order(vip, order, plan.words),
            answer: None,
            asked: None,
        };
        begun.order.given = given;
        if given {
            let wanted = match order {
                Order::Release => speaker::Order::Give,
                _ => speaker::Order::Take,
            };
            self.note(vip.name.as_str(), &format!("{order} was ordered"));
            begun.answer = Some(self.speaker.order(&vip.name, wanted));
        }
        Ok(begun)
    }

    /// Gives a VIP to the host somebody chose, which is asked first.
    fn send_to(
        &mut self,
        vip: &VipSnapshot,
        host: &str,
        frozen: Option<&str>,
        dry_run: bool,
    ) -> Result<Begun, Problem> {
        if vip.state != RouterState::Active {
            return Err(elsewhere(vip, host, self.peers.are_wanted()));
        }
        let mut plan = release(vip, frozen)?;
        let Some(to) = self.peers.find(host) else {
            return Err(elsewhere(vip, host, self.peers.are_wanted()));
        };
        plan.words.insert(
            0,
            format!("{host} ({to}) is asked to be the next, whatever its priority"),
        );
        let mut begun = Begun {
            order: vip_order(vip, Order::Move, plan.words),
            answer: None,
            asked: None,
        };
        begun.order.to = Some(to);
        begun.order.given = !dry_run;
        if !dry_run {
            self.note(vip.name.as_str(), &format!("a move to {host} was ordered"));
            begun.asked = Some(self.ask_to_succeed(vip, to, host));
        }
        Ok(begun)
    }

    /// Gives a VIP away, once its next host has agreed.
    pub fn give(&self, name: &Name) -> oneshot::Receiver<Result<(), Reject>> {
        self.speaker.order(name, speaker::Order::Give)
    }

    /// Freezes a VIP here, or thaws it.
    ///
    /// # Errors
    ///
    /// The time makes no sense.
    pub fn freeze(
        &mut self,
        vip: &VipSnapshot,
        order: Order,
        request: &OrderRequest,
    ) -> Result<VipOrder, Problem> {
        let name = &vip.name;
        if order == Order::Thaw {
            let was = self.orders.frozen(name.as_str()).is_some();
            let plan = if was {
                format!("health, preemption and orders move {name} again")
            } else {
                format!("{name} is not frozen here: there is nothing to do")
            };
            let mut told = vip_order(vip, order, vec![plan]);
            told.given = was && !request.dry_run;
            if told.given {
                self.orders.thaw(name);
                self.note(name.as_str(), "thawed by order");
                self.replan("a thaw");
            }
            return Ok(told);
        }
        let seconds = request.for_seconds.unwrap_or(FREEZE);
        if !(1..=FREEZE_AT_MOST).contains(&seconds) {
            return Err(
                Problem::new(Code::SysUsage, "a freeze lasts one second to 24 hours")
                    .consequence("nothing was changed")
                    .fix(
                        Fix::text("name a time within that")
                            .command(format!("kedge vip freeze {name} --for 1h")),
                    ),
            );
        }
        let (now, at) = (clock::now(), SystemTime::now());
        let span = Duration::from_secs(seconds);
        let until = wall::rfc3339(at + span);
        let plan = vec![
            format!("until {until} only a fault moves {name} to or from this host"),
            "the other hosts of its group are not told: freeze it there as well if none may take it"
                .to_owned(),
        ];
        let mut told = vip_order(vip, order, plan);
        told.given = !request.dry_run;
        if told.given {
            self.orders.freeze(name, now, at, span);
            self.note(name.as_str(), &format!("frozen by order until {until}"));
            self.replan("a freeze");
        }
        Ok(told)
    }

    /// Drains this host, or lets it take part again.
    ///
    /// # Errors
    ///
    /// A VIP is frozen.
    pub fn drain(&mut self, order: Order, request: &OrderRequest) -> Result<DrainOrder, Problem> {
        let vips = self.speaker.snapshot();
        let drained = self.orders.drained_since();
        let mut told = DrainOrder {
            order,
            ..DrainOrder::default()
        };
        if order == Order::Undrain {
            told.given = drained.is_some() && !request.dry_run;
            told.plan.push(match &drained {
                Some(since) => format!(
                    "this host, drained since {since}, takes part again with its own priority; \
                     VIPs come back by election or by `kedge vip move`"
                ),
                None => "this host is not drained: there is nothing to do".to_owned(),
            });
        } else {
            if let Some(frozen) = vips
                .iter()
                .find(|vip| vip.ordered.frozen && holds(vip.state))
            {
                let until = self.orders.frozen(frozen.name.as_str());
                return Err(is_frozen(frozen, until.map(|it| it.until).as_deref()));
            }
            told.given = drained.is_none() && !request.dry_run;
            told.plan.push(match &drained {
                Some(since) => format!("this host is drained since {since}"),
                None => "this host gives its VIPs away and holds one only while no other host \
                         does, until `kedge undrain`"
                    .to_owned(),
            });
        }
        let what_for = |vip: &VipSnapshot| {
            let mut item = vip_order(vip, order, vec![drains(vip, order)]);
            item.given = told.given;
            item
        };
        told.items = vips.iter().map(what_for).collect();
        if told.given {
            let now = SystemTime::now();
            self.orders.drain((order == Order::Drain).then_some(now));
            self.note("", &format!("this host was told to {order}"));
            self.replan("a drain");
            self.start_drained_units(order);
            self.stop_drained_units();
        }
        Ok(told)
    }

    /// Ends freezes whose time has passed.
    pub fn end_freezes(&mut self) {
        let ended = self.orders.expire(clock::now());
        for name in &ended {
            self.note(name.as_str(), "the freeze ended, its time has passed");
        }
        if !ended.is_empty() {
            self.replan("the end of a freeze");
        }
    }

    /// What happened; `None` when nothing of that name ever was here.
    pub fn history(&self, vip: Option<&str>) -> Option<History> {
        let known = vip.is_some_and(|vip| self.snapshot(vip).is_some());
        let items = self.history.items(vip);
        let items = items.or_else(|| known.then(Vec::new))?;
        let host = self.node_name();
        Some(History { host, items })
    }

    /// The last move of a VIP, or of whichever moved last.
    pub fn timeline(&self, vip: Option<&str>) -> Option<Timeline> {
        let known = |vip: &str| {
            self.snapshot(vip).is_some() || self.history.of_this_boot(vip).next().is_some()
        };
        let vip = match vip {
            Some(vip) if !known(vip) => return None,
            Some(vip) => vip,
            None => self.history.last_moved().unwrap_or_default(),
        };
        let source = self.snapshot(vip).and_then(|vip| vip.interface);
        let sources: Vec<IpAddr> = source.map(|chosen| chosen.address).into_iter().collect();
        let records = self.history.of_this_boot(vip);
        Some(timeline(&self.node_name(), vip, sources, records))
    }

    pub(crate) fn note(&mut self, vip: &str, what: &str) {
        info!(vip, what, "an order");
        let (at, now) = (SystemTime::now(), clock::now());
        self.history.ordered(vip, at, now, what.to_owned());
    }

    /// Whether a name or an address is this host's.
    fn is_me(&self, host: &str) -> bool {
        let address = host.parse::<IpAddr>().ok();
        let mut own = self.facts.links.iter().flat_map(|link| &link.addresses);
        let short = kedge_host::identity::label(self.hostname());
        host == self.node_name()
            || host == self.hostname()
            || host == short
            || address.is_some_and(|address| own.any(|own| own.net.addr() == address))
    }
}

/// What an order does.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    acts: bool,
    words: Vec<String>,
}

fn release(vip: &VipSnapshot, frozen: Option<&str>) -> Result<Plan, Problem> {
    let name = &vip.name;
    if vip.state != RouterState::Active {
        let holder = vip.active.map(|peer| peer.address);
        let mut problem = refuse(
            vip,
            format!("this host does not hold {name}: it is {}", vip.state),
        )
        .evidence(vip.because.clone());
        problem = match holder {
            Some(holder) => problem.fix(
                Fix::text(format!(
                    "give the order on the host with {holder}, which holds it"
                ))
                .command(format!("kedge vip release {name}")),
            ),
            None => problem.fix(Fix::text("see where it is").command("kedge vip list")),
        };
        return Err(problem);
    }
    if vip.base_priority == kedge_core::vip::Priority::OWNER {
        let what = format!("the address of {name} is this host's own");
        return Err(refuse(vip, what).fix(Fix::text(
            "stop the agent to take it from the network, or give the VIP an address of its own",
        )));
    }
    if vip.ordered.frozen {
        return Err(is_frozen(vip, frozen));
    }
    Ok(Plan {
        acts: true,
        words: vec![
            format!(
                "this host says goodbye for {name} and keeps answering until another host holds it"
            ),
            "it stays Backup and does not preempt; if nobody takes it, it is held here again"
                .to_owned(),
        ],
    })
}

fn bring_here(vip: &VipSnapshot, frozen: Option<&str>) -> Result<Plan, Problem> {
    let name = &vip.name;
    match vip.state {
        RouterState::Active => {
            return Ok(Plan {
                acts: false,
                words: vec![format!("{name} is here already")],
            });
        }
        RouterState::Backup => {}
        RouterState::Initialize | RouterState::Releasing | RouterState::Fault => {
            let what = format!("this host cannot take {name}: it is {}", vip.state);
            let see = Fix::text("see why").command(format!("kedge vip explain {name}"));
            return Err(refuse(vip, what).evidence(vip.because.clone()).fix(see));
        }
    }
    if vip.ordered.frozen {
        return Err(is_frozen(vip, frozen));
    }
    if vip.ordered.drained {
        let what = "this host is drained";
        let fix = Fix::text("let it take part again first").command("kedge undrain");
        return Err(refuse(vip, what.to_owned()).fix(fix));
    }
    let Some(holder) = vip.active else {
        let what = format!("nobody is heard holding {name}: this host takes it by itself");
        let wait = Fix::text("wait for it").command(format!("kedge vip wait {name}"));
        return Err(refuse(vip, what).fix(wait));
    };
    if holder.priority >= vip.priority {
        let what = format!(
            "{} has a claim to {name} that is as good or better",
            holder.address
        );
        let evidence = format!(
            "it advertises priority {}, this host has {}: {}",
            holder.priority, vip.priority, vip.priority_because
        );
        let there = format!("let the host with {} give it away", holder.address);
        let fix = Fix::text(there).command(format!("kedge vip release {name}"));
        return Err(refuse(vip, what).evidence(evidence).fix(fix));
    }
    Ok(Plan {
        acts: true,
        words: vec![format!(
            "this host (priority {}) takes {name} from {} (priority {}), once, whatever `preempt` \
             says",
            vip.priority, holder.address, holder.priority
        )],
    })
}

/// What draining means for one VIP.
fn drains(vip: &VipSnapshot, order: Order) -> String {
    let name = &vip.name;
    let owner = vip.base_priority == kedge_core::vip::Priority::OWNER;
    match (order, vip.state) {
        _ if owner => format!("{name} is this host's own address and stays"),
        (Order::Undrain, _) => format!("{name} gets priority {} again", vip.base_priority),
        (_, RouterState::Active) => format!("{name} is given to another host"),
        _ => format!("{name} is not held here"),
    }
}

fn vip_order(vip: &VipSnapshot, order: Order, plan: Vec<String>) -> VipOrder {
    VipOrder {
        vip: vip.name.to_string(),
        order,
        given: false,
        plan,
        state: vip.state,
        at: wall::rfc3339_micros(SystemTime::now()),
        boottime_micros: boottime_micros(clock::now()),
        to: None,
        outcome: None,
    }
}

const fn boottime_micros(at: Instant) -> u64 {
    at.as_nanos() / 1_000
}

pub(crate) fn refuse(vip: &VipSnapshot, what: String) -> Problem {
    Problem::new(Code::VipOrderRefused, what)
        .object(format!("vips/{}", vip.name))
        .consequence("nothing was changed")
}

fn is_frozen(vip: &VipSnapshot, until: Option<&str>) -> Problem {
    let name = &vip.name;
    let what = match until {
        Some(until) => format!("{name} is frozen until {until}"),
        None => format!("{name} is frozen"),
    };
    let thaw = Fix::text("thaw it first").command(format!("kedge vip thaw {name}"));
    refuse(vip, what).fix(thaw)
}

fn elsewhere(vip: &VipSnapshot, host: &str, linked: bool) -> Problem {
    let shown: String = host.escape_debug().take(80).collect();
    let name = &vip.name;
    let there = format!("kedge vip move {name}");
    let what = format!("`{shown}` is not this host, and no other can be told to take {name}");
    match (vip.state, linked) {
        (RouterState::Active, true) => refuse(
            vip,
            format!("`{shown}` is neither this host nor one that is linked with it"),
        )
        .evidence("a host that stands by calls the one that holds the VIP, once it has the key")
        .fix(Fix::text("see which are").command("kedge status -o json")),
        (RouterState::Active, false) => refuse(vip, what)
            .evidence(
                "VRRP elects by priority: who gives an address away does not choose who gets it, \
                 unless the hosts are linked (`peer_link`)",
            )
            .fix(
                Fix::text(format!(
                    "run `{there}` on {shown}, or let the election choose who gets it"
                ))
                .command(format!("kedge vip release {name}")),
            ),
        _ => refuse(vip, what)
            .evidence("the host that holds a VIP can choose who gets it, and the host that gets it")
            .fix(Fix::text(format!("give the order on {shown}")).command(there)),
    }
}

/// The routers said no to what looked possible a moment before.
pub(crate) fn rejected(name: &Name, order: Order, reject: Reject) -> Problem {
    Problem::new(
        Code::VipOrderRefused,
        format!("{name} changed while the order to {order} it came"),
    )
    .object(format!("vips/{name}"))
    .evidence(reject.to_string())
    .consequence("nothing was changed")
    .fix(Fix::text("look again").command(format!("kedge vip show {name}")))
}

/// The routers' thread gave no answer.
pub(crate) fn unanswered(name: &Name, after: Duration) -> Problem {
    Problem::new(
        Code::SysUnexpected,
        format!("the VIP thread did not answer within {}", spoken(after)),
    )
    .object(format!("vips/{name}"))
    .consequence("the order may or may not have been taken")
    .fix(Fix::text("look again").command(format!("kedge vip show {name}")))
}

/// Seconds a freeze lasts when nobody says, and at most.
const FREEZE: u64 = 3_600;
const FREEZE_AT_MOST: u64 = 86_400;

#[cfg(test)]
mod tests;
