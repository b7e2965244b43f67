//! A node with an Envoy, the server of its configuration, and two back ends.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_control::frontend::{Health, Offer};
use kedge_gateway_xds::{Here, Members, render};

use super::{
    ads::Server,
    ends::{BackEnd, asked},
    envoy::{Envoy, Variant},
    services::{End, at, here, offer},
};
use crate::{
    error::LabError,
    lab::Lab,
    stage::Stage,
    topology::{NodePlan, Topology},
};

/// A node whose Envoy serves thousands of services.
pub(super) struct Place {
    pub(super) node: &'static str,
    pub(super) server: Arc<Server>,
    pub(super) envoy: Envoy,
    /// Whose members are told when a host lives or dies.
    pub(super) members: Arc<Members>,
    /// Which back end of the probed service is alive.
    pub(super) alive: End,
    _ends: [BackEnd; 2],
}

/// Nodes without links: everything happens inside each.
pub(super) fn apart(names: &[&'static str]) -> Topology {
    let node = |name: &&'static str| NodePlan {
        name,
        ..NodePlan::default()
    };
    Topology {
        segments: Vec::new(),
        nodes: names.iter().map(node).collect(),
    }
}

impl Place {
    /// Starts one without services.
    pub(super) fn start(
        lab: &mut Lab,
        node: &'static str,
        executable: &Path,
        variant: Variant,
        threads: u32,
    ) -> Result<Self, LabError> {
        let start = |end: End| BackEnd::answering(lab, node, end.at(), end.byte());
        let [a, b] = End::BOTH;
        let ends = [start(a)?, start(b)?];
        let server = Server::start(variant, &lab.root(node).join("ads.sock"))?;
        let server = Arc::new(server);
        server.declare(Vec::new());
        let told = (variant, server.socket());
        let envoy = Envoy::start(lab, node, executable, told, threads)?;
        Ok(Self {
            node,
            server,
            envoy,
            members: Arc::default(),
            alive: End::A,
            _ends: ends,
        })
    }

    /// Has so many services be served, and waits until they are.
    pub(super) fn serve(
        &mut self,
        lab: &mut Lab,
        many: u16,
        health: Option<Health>,
        stage: &Stage,
    ) -> Result<(), LabError> {
        let offer = offer(0..many, health);
        self.declare(&offer, &here(self.alive))?;
        let last = at(many.saturating_sub(1));
        self.settle(lab, stage)?;
        self.until_answered(lab, last, stage)
    }

    fn until_answered(
        &self,
        lab: &Lab,
        at: std::net::SocketAddr,
        stage: &Stage,
    ) -> Result<(), LabError> {
        let what = "an answer of the last service";
        stage
            .eventually(what, SERVED, || asked(lab, self.node, at))
            .map(drop)
    }

    pub(super) fn declare(&mut self, offer: &Offer, here: &Here) -> Result<(), LabError> {
        let rendered = render(offer, here);
        if let Some(refused) = rendered.refused.first() {
            return Err(LabError::Unexpected {
                who: "the renderer".to_owned(),
                said: format!("refuses {}: {}", refused.frontend, refused.reason),
            });
        }
        self.members = Arc::new(rendered.members);
        self.server.declare(rendered.resources);
        Ok(())
    }

    /// Waits until Envoy has taken everything.
    pub(super) fn settle(&self, lab: &mut Lab, stage: &Stage) -> Result<(), LabError> {
        let begun = Instant::now();
        loop {
            let looked = Instant::now();
            if self.server.is_settled() {
                return Ok(());
            }
            // To look at thousands of resources keeps the server from its work.
            std::thread::sleep(LOOK.max(looked.elapsed() * 10));
            self.envoy.check(lab)?;
            if stage.is_stopped() {
                return Err(LabError::Interrupted);
            }
            if begun.elapsed() > SERVED {
                return Err(LabError::Late {
                    what: format!("the Envoy on {} takes everything", self.node),
                    limit: SERVED,
                    seen: format!("refused: {}", self.server.refused()),
                });
            }
        }
    }

    /// Runs a job on the node that begins with a change, and says how long it took until what it looks for was
    /// there, in seconds.
    pub(super) fn time(
        &self,
        lab: &Lab,
        what: &str,
        change: impl FnOnce(&Server) + Send + 'static,
        is_there: impl Fn() -> bool + Send + 'static,
    ) -> Result<f64, LabError> {
        let server = Arc::clone(&self.server);
        let took = lab.worker(self.node)?.run(move || {
            let begun = Instant::now();
            change(&server);
            while begun.elapsed() < CHANGED {
                if is_there() {
                    return Some(begun.elapsed().as_secs_f64());
                }
            }
            None
        })?;
        took.ok_or_else(|| LabError::Late {
            what: format!("{what} on {}", self.node),
            limit: CHANGED,
            seen: format!("refused: {}", self.server.refused()),
        })
    }
}

/// How long thousands of services may take.
const SERVED: Duration = Duration::from_secs(120);
/// How long a change may take.
const CHANGED: Duration = Duration::from_secs(20);
/// How long one answer may take.
pub(super) const MOMENT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
