//! Speakers that are killed, and hosts that are cut off, beside one router that all of them told.

use std::{net::Ipv4Addr, path::Path, time::Duration};

use kedge_net::clock;

use super::{
    observer::Observer,
    speaker::{DAEMON, LIMIT, MISSING, SHORT, Speaker, Task, birdc, router, start_bird, write},
};
use crate::{
    error::LabError,
    lab::{Lab, executable},
    stage::Stage,
    topology::{ROUTERS, Topology},
};

/// Speakers and their router.
#[derive(Debug)]
pub(super) struct Site<'a> {
    lab: Lab,
    observer: Observer,
    speakers: &'a [Speaker],
    bfd: Duration,
}

impl<'a> Site<'a> {
    /// Starts the router and the speakers, and waits until each has told its route.
    pub(super) fn start(
        speakers: &'a [Speaker],
        bfd: Duration,
        kedge: &Path,
        stage: &Stage,
    ) -> Result<Self, LabError> {
        let (lab, _) = Lab::build(Topology::routers(), kedge.to_owned())?;
        let mut lab = lab.with_roles_of(executable(None)?);
        let observer = Observer::start(&lab.namespace(ROUTERS[0]))?;
        let config = lab.root(ROUTERS[0]).join("etc/speaker.conf");
        write(&config, &router(bfd))?;
        start_bird(&mut lab, ROUTERS[0], bfd < SHORT)?;
        let mut site = Self {
            lab,
            observer,
            speakers,
            bfd,
        };
        for speaker in speakers {
            site.begin(*speaker, stage)?;
        }
        site.settle(stage)?;
        Ok(site)
    }

    pub(super) const fn lab(&self) -> &Lab {
        &self.lab
    }

    pub(super) fn take_down(self) -> Vec<String> {
        let Self { lab, observer, .. } = self;
        drop(observer);
        lab.take_down()
    }

    /// Kills a speaker; in how many seconds its route is gone.
    pub(super) fn kill(&mut self, speaker: Speaker, stage: &Stage) -> Result<f64, LabError> {
        let process = self.lab.process(speaker.host(), DAEMON)?;
        let at = clock::now();
        process.kill();
        let gone = self.observer.gone(route(speaker), stage)?;
        Ok(gone.since(at).as_secs_f64())
    }

    /// Starts a speaker anew.
    pub(super) fn begin(&mut self, speaker: Speaker, stage: &Stage) -> Result<(), LabError> {
        let task = Task {
            routes: vec![route(speaker)],
            routers: 1,
            passive: false,
            bfd: speaker.has_bfd().then_some(self.bfd),
        };
        speaker.start(&mut self.lab, &task, stage)
    }

    /// Cuts a host off; in how many seconds its route is gone. It is back when this returns.
    pub(super) fn cut(
        &mut self,
        speaker: Speaker,
        run: u32,
        stage: &Stage,
    ) -> Result<f64, LabError> {
        // Anywhere between two packets, and evenly so.
        std::thread::sleep(self.bfd.mul_f64(phase(run)));
        let at = clock::now();
        self.lab.cut(speaker.host())?;
        let gone = self.observer.gone(route(speaker), stage);
        self.lab.heal(speaker.host())?;
        Ok(gone?.since(at).as_secs_f64())
    }

    /// Waits until the router knows every route, and every session of BFD has its times.
    pub(super) fn settle(&mut self, stage: &Stage) -> Result<(), LabError> {
        stage.eventually("every route is there", SETTLES, || {
            if let Some(fallen) = self.lab.fallen() {
                return Err(fallen);
            }
            for speaker in self.speakers {
                if !self.observer.has(route(*speaker))? {
                    return Err(format!("the router has no route of {}", speaker.name()));
                }
            }
            Ok(())
        })?;
        if !self.speakers.iter().any(|speaker| speaker.has_bfd()) {
            return Ok(());
        }
        stage.eventually("every path is watched", SETTLES, || {
            let table = birdc(&self.lab, ROUTERS[0], "show bfd sessions");
            let table = table.map_err(|error| error.to_string())?;
            for speaker in self.speakers.iter().filter(|speaker| speaker.has_bfd()) {
                if !watched(&table, self.bfd).any(|it| it == speaker.address()) {
                    return Err(table);
                }
            }
            Ok(())
        })
    }
}

/// With whom a table of BIRD's has sessions that are up and call the other one lost after three of these
/// intervals.
pub(super) fn watched(table: &str, interval: Duration) -> impl Iterator<Item = Ipv4Addr> {
    let wanted = (interval * MISSING).as_secs_f64();
    table.lines().filter_map(move |line| {
        let mut row = line.split_whitespace();
        let address = row.next()?.parse().ok()?;
        let is_up = row.nth(1)? == "Up";
        let timeout: f64 = row.last()?.parse().ok()?;
        (is_up && (timeout - wanted).abs() < 0.001).then_some(address)
    })
}

/// The one route of a speaker.
fn route(speaker: Speaker) -> Ipv4Addr {
    let last = u8::try_from(speaker.place()).unwrap_or_default();
    Ipv4Addr::new(192, 0, 2, 10 + last)
}

/// The golden ratio spreads any number of runs evenly.
fn phase(run: u32) -> f64 {
    (f64::from(run) * 0.618_033_988_749_895).fract()
}

/// How long speakers may take to find each other again; a host measures its timers for two seconds before
/// it keeps intervals below 50 ms.
const SETTLES: Duration = LIMIT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_watched_with_its_own_times_alone() {
        let table = "bfd1:\nIP address                Interface  State      Since         Interval  Timeout\n\
                     10.20.14.11               eth0       Up         12:47:42.146    0.050    0.150\n\
                     10.20.14.12               eth0       Down       12:47:42.146    1.000    0.000\n";
        let found =
            |millis| -> Vec<Ipv4Addr> { watched(table, Duration::from_millis(millis)).collect() };
        assert_eq!(
            found(50),
            [Ipv4Addr::new(10, 20, 14, 11)],
            "the other is down"
        );
        assert_eq!(found(10), [Ipv4Addr::UNSPECIFIED; 0], "other times");
    }
}
