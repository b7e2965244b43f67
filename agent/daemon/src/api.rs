//! What others see of the agent on the bus, and what root tells it there.

use kedge_control::local::{Order, OrderRequest, PeerLink, Tunnel};
use kedge_host::{
    api::{Api, PeerView, Request, TunnelView, View, VipView, Wish},
    bus::Bus,
};
use tokio::{
    sync::oneshot,
    time::{Duration, timeout},
};

use crate::{agent::Agent, operate};

/// The agent on the bus, where there is one.
#[derive(Debug)]
pub(crate) struct OnBus {
    bus: Bus,
    api: Option<Api>,
}

impl OnBus {
    pub(crate) const fn new(bus: Bus) -> Self {
        Self { bus, api: None }
    }

    /// Serves what there is to be seen, once there is.
    pub(crate) fn start(&mut self) {
        if self.api.is_none() && self.bus.is_there() {
            self.api = Some(Api::serve(self.bus.clone()));
        }
    }

    /// The next wish. Loses nothing when it is cancelled.
    pub(crate) async fn next(&mut self) -> Request {
        match &mut self.api {
            Some(api) => api.next().await,
            None => std::future::pending().await,
        }
    }
}

impl Agent {
    /// Shows how it stands to whoever looks.
    pub(crate) fn show(&self) {
        let Some(api) = self.on_bus.api.as_ref().filter(|api| api.is_served()) else {
            return;
        };
        let problems = self.problems();
        let (problems, tunnels) = (problems.into_iter(), self.tunnel.as_ref());
        api.show(View {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hostname: self.hostname().to_owned(),
            state: self.line(),
            drained: self.orders.drained_since().is_some(),
            problems: problems.map(|it| (it.code.to_string(), it.what)).collect(),
            vips: self.vips().items.into_iter().map(seen).collect(),
            tunnels: tunnels
                .map(|it| it.list().items.into_iter().map(way).collect())
                .unwrap_or_default(),
            peers: self.peers.status().into_iter().map(other).collect(),
        });
    }

    /// Does what root wishes, as on the socket.
    pub(crate) fn obey(&mut self, (wish, answer): Request) {
        let request = OrderRequest::default();
        let done = match wish {
            Wish::Release(name) => return self.release(&name, answer),
            Wish::Drain => self.drain(Order::Drain, &request).map(|told| told.plan),
            Wish::Undrain => self.drain(Order::Undrain, &request).map(|told| told.plan),
            Wish::Reload => self.reload().map(|told| told.changes),
        };
        let told = done.map(|plan| plan.join("; "));
        // Whoever asked may have left: what was ordered holds.
        let _ = answer.send(told.map_err(|problem| problem.to_string()));
    }

    fn release(&mut self, name: &str, answer: oneshot::Sender<Result<String, String>>) {
        let Some(vip) = self.snapshot(name) else {
            let _ = answer.send(Err(format!("this host has no VIP {name}")));
            return;
        };
        let begun = match self.once(&vip, Order::Release, &OrderRequest::default()) {
            Ok(begun) => begun,
            Err(problem) => {
                let _ = answer.send(Err(problem.to_string()));
                return;
            }
        };
        tokio::spawn(async move {
            let taken = match begun.answer {
                Some(taken) => timeout(ANSWER, taken).await,
                None => Ok(Ok(Ok(()))),
            };
            let told = match taken {
                Ok(Ok(Ok(()))) => Ok(begun.order.plan.join("; ")),
                Ok(Ok(Err(reject))) => Err(operate::rejected(&vip.name, Order::Release, reject)),
                Ok(Err(_)) | Err(_) => Err(operate::unanswered(&vip.name, ANSWER)),
            };
            let _ = answer.send(told.map_err(|problem| problem.to_string()));
        });
    }
}

fn seen(vip: kedge_control::local::Vip) -> (String, VipView) {
    let active = vip.active.map(|peer| peer.address.to_string());
    let view = VipView {
        addresses: vip.addresses,
        state: vip.state.to_string(),
        since: vip.since,
        because: vip.because,
        interface: vip.interface.unwrap_or_default(),
        vrid: vip.vrid,
        priority: vip.priority,
        base_priority: vip.base_priority,
        active: active.unwrap_or_default(),
    };
    (vip.name, view)
}

fn way(tunnel: Tunnel) -> (String, TunnelView) {
    let view = TunnelView {
        state: format!("{:?}", tunnel.state),
        since: tunnel.since,
        because: tunnel.because,
        path: tunnel.path,
        endpoint: tunnel.endpoint.unwrap_or_default(),
    };
    (tunnel.name, view)
}

fn other(link: PeerLink) -> (String, PeerView) {
    let view = PeerView {
        host: link.host.unwrap_or_default(),
        up: link.up,
        since: link.since,
        because: link.because,
    };
    (link.address.to_string(), view)
}

/// How long the routers may take to say whether they take an order.
const ANSWER: Duration = Duration::from_secs(1);
