//! `lab bench manager`: what a fleet costs the manager, against a real API server.
//!
//! ```text
//! API server ◄─ seeded: sites of hosts and clusters
//!     ▲  ▲
//!     │  └── a plain client that lists the same kinds: what a start cannot be without
//!     └───── kedge manager, the process under measurement: seen through its metrics, /proc and
//!            what the API server counts
//! ```

mod definitions;
mod hosts;
mod listing;
mod rows;
mod server;
mod site;
mod subject;

use std::time::{Duration, Instant};

use kedge_core::{Coded as _, Problem};
use kube::Client;
use tokio::runtime::{Builder, Runtime};

use self::{
    rows::Measured,
    server::{Counted, Versions},
    site::Fleet,
    subject::Subject,
};
use super::{BenchArgs, BenchResult, Samples};
use crate::{
    error::LabError,
    kube::{ApiServer, Programs},
    stage::Stage,
};

/// Measures.
///
/// # Errors
/// The programs are not there, or a part of the run fails.
pub(super) fn run(
    args: &BenchArgs,
    programs: Programs,
    stage: &Stage,
) -> Result<BenchResult, Problem> {
    let runtime = runtime().map_err(|err| err.problem())?;
    let result = runtime.block_on(measure(args, programs, stage));
    result.map_err(|err| err.problem())
}

fn runtime() -> Result<Runtime, LabError> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(LabError::file("a runtime's threads"))
}

async fn measure(
    args: &BenchArgs,
    programs: Programs,
    stage: &Stage,
) -> Result<BenchResult, LabError> {
    let kedge = crate::lab::executable(args.kedge.as_deref())?;
    let folder = tempfile::tempdir().map_err(LabError::file("a folder for the run"))?;
    let fleet = Fleet::new(args.hosts, args.clusters);
    stage.heading("kedge lab bench manager");
    let server = ApiServer::start(programs, folder.path(), Vec::new()).await?;
    let client = server.client("admin").await.map_err(server::said)?;
    let peer = server::version(&client).await?;
    stage.good(&format!("{peer} with a store of its own"));
    let bench = Bench {
        args,
        stage,
        fleet,
        server,
        client,
        kedge,
        folder: folder.path(),
    };
    let measured = bench.run().await;
    if let Some(directory) = &args.keep {
        crate::process::copy_logs(&folder.path().join("logs"), directory)
            .map_err(LabError::file(directory))?;
    }
    let (rows, notes) = measured?.rows(&bench.fleet);
    Ok(BenchResult {
        notes,
        ..BenchResult::new("manager", peer, command(args), stage.seconds(), rows)
    })
}

struct Bench<'a> {
    args: &'a BenchArgs,
    stage: &'a Stage,
    fleet: Fleet,
    server: ApiServer,
    client: Client,
    kedge: std::path::PathBuf,
    folder: &'a std::path::Path,
}

impl Bench<'_> {
    async fn run(&self) -> Result<Measured, LabError> {
        let (stage, mut measured) = (self.stage, Measured::default());
        let begun = Instant::now();
        definitions::install(&self.client).await?;
        let seeded = self.fleet.seed(&self.client, stage).await?;
        stage.good(&format!(
            "{} hosts, {} clusters, {seeded} objects made: {:.0} s",
            self.fleet.hosts,
            self.fleet.clusters,
            begun.elapsed().as_secs_f64()
        ));

        let begun = Instant::now();
        // Who was never heard counts as silent after half a minute: that is told once.
        let span = Duration::from_secs(u64::from(self.args.idle));
        let told = TOLD.min(span);
        let subject = self.start("manager-0").await?;
        self.rest(&subject, told).await?;
        stage.good(&format!(
            "every endpoint is filled and every status written: {:.0} s",
            begun.elapsed().as_secs_f64()
        ));
        subject.stop();

        let mut last = None;
        for round in 1..=STARTS {
            drop(last.take());
            let list = listing::time(&self.client).await?;
            let before = Counted::now(&self.client).await?;
            let began = Instant::now();
            let subject = self.start(&format!("manager-{round}")).await?;
            let seen = subject.synced(stage).await?;
            let took = began.elapsed().as_secs_f64();
            let wrote = Counted::now(&self.client).await?.since(&before);
            stage.tell(&format!(
                "start {round}: {took:.2} s, of which a plain list takes {:.2} s ({} objects); {:.2} \
                 s of CPU, {} writes",
                list.seconds, list.objects, seen.cpu, wrote
            ));
            measured.start(took, &list, &seen, wrote);
            last = Some(subject);
        }
        let Some(subject) = last else {
            return Err(server::said("no start was measured"));
        };
        self.rest(&subject, told).await?;
        measured.rss.push(subject.rss()?);
        stage.tell(&format!("resident: {:.1} MiB", measured.rss.max()));

        for round in 0..TOUCHES {
            let seen = self.touch(&subject, round).await?;
            stage.tell(&format!(
                "{:.0} objects looked at without a write: {:.0} a second",
                seen.0,
                seen.0 / seen.1
            ));
            measured.noop.push(seen.0 / seen.1);
        }

        for run in 0..self.args.runs() {
            let fill = self.fleet.fill(&self.client, run, stage).await?;
            measured.fill.push(fill.after);
            measured.fill_asked.push(fill.asked);
        }
        stage.tell(&format!(
            "blank to filled, {} times: p50 {:.1} ms, p99 {:.1} ms",
            measured.fill.len(),
            measured.fill.p50() * 1e3,
            measured.fill.p99() * 1e3
        ));

        let hosts = hosts::enrol(
            &subject,
            &self.client,
            &self.fleet,
            &self.folder.join("hosts"),
            stage,
        )
        .await?;
        stage.tell(&format!(
            "{} hosts enrolled: {:.1} s",
            hosts.len(),
            hosts.seconds
        ));
        measured.enrol.push(hosts.seconds);
        measured.enrolled = hosts.len();
        measured.rss_enrolled = subject.rss()?;

        self.rest(&subject, told).await?;
        stage.tell(&format!("{span:?} in which nothing changes"));
        let (before, versions) = (
            Counted::now(&self.client).await?,
            Versions::now(&self.client).await?,
        );
        server::pass(span, stage).await?;
        let wrote = Counted::now(&self.client).await?.since(&before);
        let moved = versions.moved(&Versions::now(&self.client).await?);
        measured.idle(wrote, moved, self.fleet.hosts + hosts.len(), span);
        stage.tell(&format!("{wrote} writes, {moved} objects changed"));
        drop(hosts);
        subject.stop();
        Ok(measured)
    }

    async fn start(&self, name: &str) -> Result<Subject, LabError> {
        let kubeconfig = self.server.kubeconfig("admin")?;
        Subject::start(&self.kedge, &kubeconfig, self.folder, name)
    }

    /// Waits until the manager has nothing to do and writes nothing for a while.
    async fn rest(&self, subject: &Subject, least: Duration) -> Result<(), LabError> {
        subject.synced(self.stage).await?;
        let (begun, mut calm) = (Instant::now(), Instant::now());
        let mut last = Counted::now(&self.client).await?;
        while calm.elapsed() < CALM || subject.age() < least {
            server::pass(Duration::from_millis(500), self.stage).await?;
            let now = Counted::now(&self.client).await?;
            if now.since(&last) != 0 || subject.sample().await?.queue != 0.0 {
                calm = Instant::now();
            }
            last = now;
            if begun.elapsed() > PATIENCE {
                return Err(LabError::Late {
                    what: "a manager that comes to rest".to_owned(),
                    limit: PATIENCE,
                    seen: subject.last_words(),
                });
            }
        }
        Ok(())
    }

    /// Has every namespace planned again for nothing; how many objects, and the seconds it took.
    async fn touch(&self, subject: &Subject, round: u32) -> Result<(f64, f64), LabError> {
        let before = subject.sample().await?;
        let wanted = self.fleet.touch(&self.client, round).await?;
        let begun = Instant::now();
        loop {
            let now = subject.sample().await?;
            let seen = now.looked_at - before.looked_at;
            if seen >= wanted && now.queue == 0.0 {
                return Ok((seen, now.planning - before.planning));
            }
            if begun.elapsed() > PATIENCE {
                return Err(LabError::Late {
                    what: "a plan of every namespace".to_owned(),
                    limit: PATIENCE,
                    seen: format!("{seen} of {wanted} objects"),
                });
            }
            server::pass(Duration::from_millis(50), self.stage).await?;
        }
    }
}

fn command(args: &BenchArgs) -> String {
    let mut command = format!("sudo kedge lab bench manager --runs {}", args.runs());
    if (args.hosts, args.clusters) != (super::HOSTS, super::CLUSTERS) {
        command += &format!(" --hosts {} --clusters {}", args.hosts, args.clusters);
    }
    command
}

impl Measured {
    fn idle(&mut self, wrote: u64, moved: usize, hosts: usize, span: Duration) {
        let minutes = span.as_secs_f64() / 60.0;
        let moved = u64::try_from(moved).unwrap_or(u64::MAX);
        let all = f64::from(u32::try_from(wrote.max(moved)).unwrap_or(u32::MAX));
        let hosts_f = f64::from(u32::try_from(hosts).unwrap_or(u32::MAX));
        self.idle = Samples::default();
        self.idle.push(all / hosts_f / minutes);
        self.idle_hosts = hosts;
    }
}

/// How often the start is measured.
const STARTS: u32 = 3;
/// How often everything is planned again.
const TOUCHES: u32 = 3;
/// Longer than the silence that is told.
const TOLD: Duration = Duration::from_secs(36);
/// How long nothing is written before it counts as rest.
const CALM: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(400);
