//! `lab demo`: the whole main job before the viewer's eyes, and what each fault cost.

mod faults;
mod rise;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use kedge_control::document::{Document, Kind};
use kedge_core::{Coded, Problem};
use serde::{Deserialize, Serialize};

use crate::{
    columns::columns,
    error::LabError,
    lab::{self, Lab},
    site::{Site, told},
    stage::Stage,
    topology::Topology,
};

/// Flags of `lab demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// The executable whose roles are shown; this one when left out
    #[arg(long, value_name = "PATH")]
    pub kedge: Option<PathBuf>,
    /// Keep the logs of every process in this directory
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// What the demo showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DemoResult {
    /// Whether every step held and nothing was left behind.
    pub ok: bool,
    /// How long it took.
    pub seconds: f64,
    /// The steps, in order. A step that did not hold is the last but for the clean-up.
    pub steps: Vec<Step>,
    /// What each fault cost the client.
    pub outages: Vec<Outage>,
    /// What could not be removed.
    pub leftovers: Vec<String>,
}

/// A step of the demo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Whether it held.
    pub ok: bool,
    /// How long it took.
    pub seconds: f64,
    /// What was seen.
    pub detail: String,
}

/// What a fault cost the client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outage {
    /// The fault.
    pub fault: String,
    /// Probes without an answer: one each millisecond, or requests where the fault is not the
    /// VIP's.
    pub lost_probes: u64,
    /// The longest time without an answer.
    pub outage_seconds: f64,
    /// Why it took so long and no longer: the new owner's own record where the VIP moved.
    pub because: String,
}

impl Kind for DemoResult {
    const KIND: &'static str = "DemoResult";
}

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs, stage: &Stage) -> Result<DemoResult, Problem> {
    let kedge = lab::executable(args.kedge.as_deref()).map_err(|err| err.problem())?;
    let mut demo = Demo {
        stage,
        result: DemoResult::default(),
    };
    stage.line(PICTURE);
    let mut left = Vec::new();
    if let Some(site) = demo.build(kedge) {
        let mut site = site;
        // The steps end with the first that does not hold; the clean-up is done either way.
        let shown = demo.show(&mut site);
        if shown.is_none() && !stage.is_stopped() {
            for line in site.lab_mut().fallen().iter().flat_map(|text| text.lines()) {
                stage.detail(line);
            }
        }
        if let Some(directory) = &args.keep {
            match site.lab().keep_logs(directory) {
                Ok(()) => stage.tell(&format!("logs are kept in {}", directory.display())),
                Err(err) => stage.bad(&told(&err)),
            }
        }
        left = demo.take_down(site);
    }
    let mut result = demo.result;
    result.leftovers = left;
    result.seconds = round(stage.seconds());
    result.ok = result.steps.iter().all(|step| step.ok) && result.leftovers.is_empty();
    Ok(result)
}

/// Brings a site up to where a client reaches the API: the first half of the demo.
///
/// # Errors
/// The step that did not hold.
pub(crate) fn raise(site: &mut Site, stage: &Stage) -> Result<(), Step> {
    let mut demo = Demo {
        stage,
        result: DemoResult::default(),
    };
    demo.rise(site)
        .ok_or_else(|| demo.result.steps.pop().unwrap_or_default())
}

/// What a step saw, beside whether it held.
#[derive(Debug, Default)]
struct Seen {
    /// What a fault cost.
    outages: Vec<Outage>,
    /// Lines that explain the step's own.
    notes: Vec<String>,
}

/// The run of a demo.
struct Demo<'a> {
    stage: &'a Stage,
    result: DemoResult,
}

impl Demo<'_> {
    fn build(&mut self, kedge: PathBuf) -> Option<Site> {
        self.stage
            .heading("An edge site, a load-balancer side, and the internet between them");
        self.step("build", |stage, _| {
            let (lab, collected) = Lab::build(Topology::edge(), kedge)?;
            if collected.runs > 0 {
                stage.detail(&format!(
                    "removed what {} killed run(s) had left: {} namespaces, {} processes",
                    collected.runs, collected.namespaces, collected.processes
                ));
            }
            let nodes = lab.topology().nodes.len();
            let detail = format!("{nodes} network namespaces, run {}", lab.id());
            Ok((Site::new(lab)?, detail))
        })
    }

    /// Everything between building and taking down.
    fn show(&mut self, site: &mut Site) -> Option<()> {
        self.rise(site)?;
        self.faults(site)
    }

    fn take_down(&mut self, site: Site) -> Vec<String> {
        self.stage.heading("Down");
        let mut left = Vec::new();
        self.step("take down", |_, _| {
            left = site.take_down();
            match left.as_slice() {
                [] => Ok(((), "no namespace, process or file is left".to_owned())),
                left => Err(LabError::Unexpected {
                    who: "the lab".to_owned(),
                    said: format!("left {}", left.join(", ")),
                }),
            }
        });
        left
    }

    /// Runs a step, tells how it ended and records it. `None` when it did not hold.
    fn step<T>(
        &mut self,
        name: &str,
        run: impl FnOnce(&Stage, &mut Seen) -> Result<(T, String), LabError>,
    ) -> Option<T> {
        let begun = self.stage.seconds();
        let mut seen = Seen::default();
        let ended = run(self.stage, &mut seen);
        self.result.outages.append(&mut seen.outages);
        let seconds = self.stage.seconds() - begun;
        let (ok, detail, value) = match ended {
            Ok((value, detail)) => (true, detail, Some(value)),
            Err(LabError::Late { what, limit, seen }) => {
                let limit = limit.as_secs_f64();
                (
                    false,
                    format!("{what} did not happen within {limit} s: {seen}"),
                    None,
                )
            }
            Err(err) => (false, told(&err), None),
        };
        let line = format!("{name}: {detail}");
        if ok {
            self.stage.good(&line)
        } else {
            self.stage.bad(&line)
        }
        for note in &seen.notes {
            self.stage.detail(note);
        }
        self.result.steps.push(Step {
            name: name.to_owned(),
            ok,
            seconds: round(seconds),
            detail,
        });
        value
    }
}

impl DemoResult {
    /// The result with its `apiVersion` and `kind`.
    #[must_use]
    pub fn document(self) -> Document<Self> {
        Document::new(self)
    }

    /// The result for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut steps = columns(&["step", "held", "seconds"], &[2]);
        for step in &self.steps {
            let held = if step.ok { "yes" } else { "NO" };
            steps.add_row([
                step.name.clone(),
                held.to_owned(),
                format!("{:.2}", step.seconds),
            ]);
        }
        let titles = ["fault", "lost", "outage", "VRRP at 1 s", "lease of 15 s"];
        let mut outages = columns(&titles, &[1, 2]);
        for outage in &self.outages {
            let others = outage.others();
            outages.add_row([
                outage.fault.clone(),
                outage.lost_probes.to_string(),
                format!("{:.0} ms", outage.outage_seconds * 1e3),
                others.0.to_owned(),
                others.1.to_owned(),
            ]);
        }
        let verdict = if self.ok {
            format!(
                "Every step held. {:.1} s, nothing left behind.",
                self.seconds
            )
        } else {
            format!(
                "Not every step held. {:.1} s, {} left behind.",
                self.seconds,
                self.leftovers.len()
            )
        };
        format!("{steps}\n\n{outages}\n\n{verdict}\n")
    }
}

impl Outage {
    /// What the same fault costs by the design of others: VRRP with adverts each second, and a
    /// lease of 15 s.
    fn others(&self) -> (&'static str, &'static str) {
        match self.fault.as_str() {
            faults::HOST_DEATH | faults::LINK_CUT => ("3000–3600 ms", "up to 15000 ms"),
            _ => ("-", "-"),
        }
    }
}

/// To the millisecond: what comes after it is noise.
fn round(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

const PICTURE: &str = r"
  edge-a   edge-b   edge-c        three hosts, each with a kedge agent and a stand-in API server
    └────────┼────────┘
     LAN 10.20.14.0/24 ── router (NAT) ── internet ── gateway 203.0.113.7
             │                              │         manager 203.0.113.9
             └──────────── client ──────────┘";

/// How long a level may take to come about.
const SOON: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests;
