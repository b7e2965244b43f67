//! What links to other hosts are used for: an Active whose process ended, and a VIP that is given to a
//! host somebody chose.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::{
    Problem,
    vip::{RouterState, Vrid},
};
use kedge_vip_proto::vrrp::Members;
use kedge_vip_speaker::{self as speaker, Reject, Verdict, VipSnapshot};
use tokio::sync::oneshot;

use crate::{
    agent::Agent,
    peers::{Answer, Matter, PeerEvent, Remote},
};

/// Another host was asked to be the next.
#[derive(Debug)]
pub(crate) struct Asked {
    pub host: String,
    pub answer: oneshot::Receiver<Result<(), String>>,
}

impl Agent {
    /// Has links as the configuration says.
    pub(crate) fn link_peers(&mut self) {
        let host = self.node_name();
        let config = self.live.config().peer_link.clone();
        self.peers
            .configure(config.as_ref(), &host, self.live.root());
        self.call_peers();
    }

    /// Calls the Actives of the VIPs this host stands by for.
    pub(crate) fn call_peers(&mut self) {
        if !self.peers.are_wanted() {
            return;
        }
        let snapshot = self.speaker.snapshot();
        let wanted: BTreeMap<Remote, IpAddr> = snapshot
            .iter()
            .filter(|vip| vip.state == RouterState::Backup)
            .filter(|vip| {
                let wanted = self.desired.vip(&vip.name);
                wanted.is_some_and(|wanted| wanted.spec.members == Members::Kedge)
            })
            .filter_map(|vip| {
                let (chosen, active) = (vip.interface.as_ref()?, vip.active?);
                let remote = Remote {
                    ifindex: chosen.ifindex,
                    address: active.address,
                };
                Some((remote, chosen.address))
            })
            .collect();
        self.peers.call(&wanted);
    }

    /// Takes what happened on a link.
    pub(crate) fn meet(&mut self, event: PeerEvent) {
        match self.peers.take(event) {
            None => {}
            Some(Matter::Gone(Remote { ifindex, address })) => {
                self.speaker.peer_gone(ifindex, address);
            }
            Some(Matter::Asked {
                remote,
                vrid,
                ipv6,
                answer,
            }) => self.asked(remote, vrid, ipv6, answer),
        }
    }

    /// The Active asks this host to be the next.
    fn asked(&mut self, remote: Remote, vrid: Vrid, ipv6: bool, answer: Answer) {
        let snapshot = self.speaker.snapshot();
        let vip = snapshot.iter().find(|vip| {
            let here = vip.interface.as_ref();
            vip.vrid == vrid
                && vip.is_ipv6() == ipv6
                && here.is_some_and(|chosen| chosen.ifindex == remote.ifindex)
        });
        let Some(vip) = vip else {
            return answer.give(Some("it does not take part there".to_owned()));
        };
        let gated = self
            .desired
            .vip(&vip.name)
            .is_some_and(|it| it.health.is_some());
        if let Some(why) = unfit(vip, gated, remote.address) {
            return answer.give(Some(why));
        }
        let note = format!("{} asked this host to be the next", remote.address);
        self.note(vip.name.as_str(), &note);
        let taken = self.speaker.order(&vip.name, speaker::Order::Succeed);
        tokio::spawn(async move {
            answer.give(match taken.await {
                Ok(Ok(())) => None,
                Ok(Err(reject)) => Some(spoken(reject)),
                Err(_) => Some("its VIP thread is gone".to_owned()),
            });
        });
    }

    /// Asks another host to be the next.
    pub(crate) fn ask_to_succeed(&self, vip: &VipSnapshot, to: IpAddr, host: &str) -> Asked {
        Asked {
            host: host.to_owned(),
            answer: self.peers.ask(to, vip.vrid, vip.is_ipv6()),
        }
    }
}

/// Why this host is not to hold a VIP next, if so.
fn unfit(vip: &VipSnapshot, gated: bool, asker: IpAddr) -> Option<String> {
    if vip.state != RouterState::Backup {
        return Some(format!("it is {} there: {}", vip.state, vip.because));
    }
    if vip.active.is_none_or(|active| active.address != asker) {
        return Some("another host is Active there".to_owned());
    }
    if vip.ordered.drained {
        return Some("it is drained".to_owned());
    }
    if gated && vip.verdict != Verdict::Healthy {
        return Some("its service is not healthy".to_owned());
    }
    None
}

fn spoken(reject: Reject) -> String {
    match reject {
        Reject::Frozen => "the VIP is frozen there".to_owned(),
        other => other.to_string(),
    }
}

/// The other host does not want to be the next.
pub(crate) fn refused(vip: &VipSnapshot, host: &str, why: &str) -> Problem {
    crate::operate::refuse(vip, format!("{host} cannot be the next for {}", vip.name))
        .evidence(format!("it says: {why}"))
        .fix(kedge_core::Fix::text("see there").command(format!("kedge vip explain {}", vip.name)))
}
