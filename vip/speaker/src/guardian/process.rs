//! The guardian itself: it sleeps until the agent is gone, and then leaves in its name.

use std::{collections::BTreeMap, io, os::fd::OwnedFd, sync::Arc, time::Duration};

use kedge_core::{Code, Coded, Problem};
use kedge_net::{
    channel::{Arrival, Channel},
    clock, fence, memory,
    process::{be_killed_last, call_itself, ignore_signals_to_the_group},
    sched::{self, GUARDIAN_PRIORITY},
    wait::{Alarm, Waiter},
};
use tracing::{debug, info, warn};

use super::{
    mastership::{Mastership, Slot},
    message::{Message, Ward},
};
use crate::{
    StartError,
    shell::{Interface, Shell},
    virtual_links::Doors,
};

/// The guardian cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// Nobody is there to be guarded, as for one that was started by hand.
    #[error("the guardian is started by the agent, and by nobody else")]
    Alone,
    /// A descriptor or a mapping failed.
    #[error("the guardian cannot wait for its agent")]
    Io(#[from] io::Error),
    /// Addresses or links cannot be observed.
    #[error(transparent)]
    Start(#[from] StartError),
}

struct Guardian {
    channel: Channel,
    shell: Shell,
    interfaces: BTreeMap<u32, Interface>,
    wards: BTreeMap<Slot, Ward>,
}

/// Guards the agent at the other end of `channel` until that has ended, and hands its VIPs over.
///
/// # Errors
///
/// See [`GuardianError`].
pub fn run(channel: OwnedFd) -> Result<(), GuardianError> {
    let channel = Channel::inherited(channel);
    let (page, end) = hello(&channel)?;
    let page = Arc::new(Mastership::open(page)?);
    // What a terminal or the service manager tells the agent is for the agent to do.
    ignore_signals_to_the_group()?;
    memory::forget_start();
    for (what, done) in [
        ("it has another name", call_itself(c"kedge-guardian")),
        ("memory is not locked", sched::lock_memory()),
        ("the kernel may kill it early", be_killed_last()),
    ] {
        if let Err(error) = done {
            debug!(error = &error as &dyn std::error::Error, "{what}");
        }
    }
    let shell = Shell::guarding(Arc::clone(&page))?;
    // After the threads that may take their time.
    let class = sched::real_time(GUARDIAN_PRIORITY);
    let mut guardian = Guardian {
        channel,
        shell,
        interfaces: BTreeMap::new(),
        wards: BTreeMap::new(),
    };
    debug!(%class, "the guardian stands by");
    guardian.watch(&end)?;
    guardian.hand_over(&page);
    Ok(())
}

/// Takes the agent's first message: the page, and its end.
fn hello(channel: &Channel) -> Result<(OwnedFd, OwnedFd), GuardianError> {
    let mut waiter = Waiter::new()?;
    // A terminal or a file cannot be waited for in this way, or never says it.
    waiter
        .add(channel, CHANNEL)
        .map_err(|_| GuardianError::Alone)?;
    loop {
        waiter.wait()?;
        match channel.receive().map_err(|_| GuardianError::Alone)? {
            Arrival::Nothing => {}
            Arrival::Closed => return Err(GuardianError::Alone),
            Arrival::Message(message, beside) => {
                let mut beside = beside.into_iter();
                return match (Message::parse(&message), beside.next(), beside.next()) {
                    (Ok(Message::Hello), Some(page), Some(end)) => Ok((page, end)),
                    _ => Err(GuardianError::Alone),
                };
            }
        }
    }
}

impl Guardian {
    /// Learns what there is to guard until the agent has ended.
    fn watch(&mut self, end: &OwnedFd) -> io::Result<()> {
        let mut waiter = Waiter::new()?;
        waiter.add(end, END)?;
        waiter.add(&self.channel, CHANNEL)?;
        // What it did until now it will hardly do again, and what it will do the agent does all the
        // time: that is in memory.
        let mut calm = Alarm::new()?;
        waiter.add(&calm, CALM)?;
        calm.set(Some(clock::now() + CALM_AFTER))?;
        loop {
            let ready = waiter.wait()?;
            let (ended, is_calm) = (ready.contains(&END), ready.contains(&CALM));
            if is_calm {
                calm.silence();
                memory::forget_start();
            }
            // Also after its end: what it said before counts.
            if self.learn()? || ended {
                return Ok(());
            }
        }
    }

    /// Takes what the agent said; whether it has closed its end, which only its end does.
    fn learn(&mut self) -> io::Result<bool> {
        loop {
            match self.channel.receive()? {
                Arrival::Nothing => return Ok(false),
                Arrival::Closed => return Ok(true),
                Arrival::Message(message, beside) => self.note(&message, beside)?,
            }
        }
    }

    fn note(&mut self, message: &[u8], beside: Vec<OwnedFd>) -> io::Result<()> {
        match Message::parse(message) {
            Ok(Message::Interface {
                ifindex,
                name,
                sockets,
            }) => {
                let interface = Interface::adopt(name, ifindex, &sockets, beside)?;
                self.interfaces.insert(ifindex, interface);
            }
            Ok(Message::InterfaceGone { ifindex }) => {
                self.interfaces.remove(&ifindex);
            }
            Ok(Message::Ward(ward)) => {
                self.wards.insert(ward.slot, *ward);
            }
            Ok(Message::WardGone { slot }) => {
                self.wards.remove(&slot);
            }
            Ok(Message::Hello) => {}
            // Both ends are one executable; what it cannot read it cannot have said.
            Err(error) => warn!(
                error = &error as &dyn std::error::Error,
                "the agent said something strange"
            ),
        }
        Ok(())
    }

    /// Leaves for every VIP the agent held.
    fn hand_over(self, page: &Mastership) {
        let Self {
            mut shell,
            interfaces,
            wards,
            ..
        } = self;
        let now = clock::now();
        let held: Vec<_> = wards
            .values()
            .filter_map(|ward| Some((ward, page.last_advert(ward.slot)?)))
            .collect();
        if held.is_empty() || page.is_overtaken() {
            return;
        }
        let vips = held.len();
        shell.adopt(interfaces);
        if let Some(until) = page.kept_until().filter(|until| *until > now) {
            for (ward, last_advert) in held {
                shell.caretake(now, ward, last_advert);
            }
            shell.keep(now, until);
            info!(vips, "the agent is being replaced, and its VIPs are kept");
        } else {
            for (ward, last_advert) in held {
                shell.orphan(now, ward, last_advert);
            }
            shell.leave_at_once(now);
            info!(vips, "the agent is gone, and its VIPs are handed over");
        }
        shell.run();
        // Also what the agent had begun to set down.
        if !page.is_overtaken()
            && wards.values().any(Ward::has_links)
            && let Err(error) = Doors::default().lower_all()
        {
            let error = &error as &dyn std::error::Error;
            warn!(error, "a virtual link is left up");
        }
        if !page.is_overtaken()
            && let Err(error) = fence::remove_all()
        {
            let error = &error as &dyn std::error::Error;
            warn!(error, "a fence is left behind");
        }
    }
}

impl Coded for GuardianError {
    fn problem(&self) -> Problem {
        let problem = match self {
            Self::Alone | Self::Io(_) => Problem::new(Code::VipGuardian, self.to_string()),
            Self::Start(error) => return error.problem(),
        };
        match std::error::Error::source(self) {
            Some(source) => problem.caused_by(source),
            None => problem,
        }
    }
}

const CHANNEL: u64 = 0;
const END: u64 = 1;
const CALM: u64 = 2;
/// How long an agent has things to say when it starts.
const CALM_AFTER: Duration = Duration::from_secs(5);
