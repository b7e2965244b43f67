//! Making things go wrong.

use kedge_vip_proto::vrrp::{Command, Config, Input, Link, LinkLoss, Verdict};

use crate::{
    check::Violation,
    faults::Fault,
    host::Inbound,
    setup::{mac, source},
    subject::{Cause, Subject},
    world::{Happening, World},
};

impl<S: Subject> World<S> {
    /// The health gate follows the service after a while.
    pub(crate) fn look(&mut self, index: usize, epoch: u32) -> Result<(), Violation> {
        let host = &mut self.hosts[index];
        let verdict = match (host.healthy, host.verdict) {
            (true, _) => Verdict::Healthy,
            (false, Verdict::Unproven) => Verdict::Unproven,
            (false, Verdict::Healthy | Verdict::Failing) => Verdict::Failing,
        };
        host.verdict = verdict;
        if host.epoch == epoch {
            self.give(index, Inbound::Input(Input::Health(verdict)))?;
        }
        Ok(())
    }

    pub(crate) fn fault(&mut self, fault: Fault) -> Result<(), Violation> {
        self.checker.disturbed(self.now);
        let command = |world: &mut Self, host: usize, command: Command| {
            world.give(host, Inbound::Input(Input::Command(command)))
        };
        match fault {
            Fault::Loss(percent) => self.network.loss = percent,
            Fault::Damage(percent) => self.network.damage = percent,
            Fault::Partition(sides) => self.network.partition(|station| sides >> station & 1 == 1),
            Fault::OneWay(from, to) if from != to => self.network.block(from, to),
            Fault::OneWay(..) => {}
            Fault::Heal => self.network.heal(),
            Fault::KernelsObey => self.setup.refusals = 0,
            Fault::KillProcess(host) => self.kill(host, false),
            Fault::KillHost(host) => self.kill(host, true),
            Fault::Start(host) => self.start(host)?,
            Fault::Stop(host) => command(self, host, Command::Stop)?,
            Fault::HandOver(host) => command(self, host, Command::HandOver)?,
            Fault::Stall(host) => self.hosts[host].stalled = true,
            Fault::Resume(host) => self.resume(host)?,
            Fault::LinkDown(host) => {
                self.hosts[host].link = false;
                self.give(
                    host,
                    Inbound::Input(Input::Link(Link::Down(LinkLoss::Carrier))),
                )?;
            }
            Fault::LinkUp(host) => {
                if !self.hosts[host].link {
                    self.hosts[host].link = true;
                    self.hosts[host].heard = false;
                    self.give(host, Inbound::Input(link_up(host, self.setup.ipv6)))?;
                }
            }
            Fault::Take(host) => command(self, host, Command::Take)?,
            Fault::Prioritise(host, priority) => {
                if !self.hosts[host].config.owner {
                    self.configure(host, |config| config.priority = priority)?;
                }
            }
            Fault::Tracked(host, tracked) => {
                self.hosts[host].tracked = tracked;
                self.give(host, Inbound::Input(Input::Tracked(tracked)))?;
            }
            Fault::Freeze(host, frozen) => self.configure(host, |config| config.frozen = frozen)?,
            Fault::Drain(host, drained) => {
                self.configure(host, |config| config.drained = drained)?;
            }
            Fault::Ill(host) => {
                self.hosts[host].healthy = false;
                self.look_later(host);
            }
            Fault::Well(host) => {
                self.hosts[host].healthy = true;
                self.look_later(host);
            }
        }
        Ok(())
    }

    fn configure(
        &mut self,
        host: usize,
        change: impl FnOnce(&mut Config),
    ) -> Result<(), Violation> {
        let config = &mut self.hosts[host].config;
        change(config);
        let config = config.clone();
        self.give(host, Inbound::Input(Input::Config(config)))
    }

    fn look_later(&mut self, host: usize) {
        let epoch = self.hosts[host].epoch;
        self.after(1_000, 200_000, Happening::Verdict { host, epoch });
    }

    fn kill(&mut self, index: usize, kernel_too: bool) {
        let host = &mut self.hosts[index];
        if host.router.take().is_none() {
            return;
        }
        host.epoch += 1;
        host.stalled = false;
        host.backlog.clear();
        host.kernel.wanted = None;
        self.checker.died(index);
        if kernel_too {
            self.hosts[index].kernel.holds = false;
        } else {
            let epoch = self.hosts[index].epoch;
            self.after(
                2_000_000,
                2_000_000,
                Happening::Expire { host: index, epoch },
            );
        }
    }

    /// A new process, unless one runs; one that left is told to take part again.
    fn start(&mut self, index: usize) -> Result<(), Violation> {
        let host = &mut self.hosts[index];
        if host.router.is_none() {
            host.epoch += 1;
            host.heard = false;
            // Addresses of an earlier process are removed before any advert.
            host.kernel.holds = false;
            host.router = Some(S::with(host.config.clone()));
            // A state record is kept once the host took part.
            host.config.first_claim = false;
            let (link, verdict, tracked) = (host.link, host.verdict, host.tracked);
            if link {
                self.act(index, &Cause::Input(link_up(index, self.setup.ipv6)))?;
            }
            self.act(index, &Cause::Input(Input::Health(verdict)))?;
            self.act(index, &Cause::Input(Input::Tracked(tracked)))?;
        }
        self.give(index, Inbound::Input(Input::Command(Command::Start)))
    }

    /// The process is scheduled again: what waited comes first, then what is due.
    fn resume(&mut self, index: usize) -> Result<(), Violation> {
        self.hosts[index].stalled = false;
        while let Some(inbound) = self.hosts[index].backlog.pop_front() {
            self.give(index, inbound)?;
        }
        let due = self.hosts[index]
            .wakes_at()
            .is_some_and(|due| due <= self.now);
        if due {
            self.act(index, &Cause::Timeout)
        } else {
            Ok(())
        }
    }
}

fn link_up(host: usize, ipv6: bool) -> Input {
    Input::Link(Link::Up {
        source: source(host, ipv6),
        mac: mac(host),
    })
}
