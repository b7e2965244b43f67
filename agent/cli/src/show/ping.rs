//! What asking a peer told, as `ping` sums it up.

use kedge_control::local::TunnelPing;

use super::{Show, View};
use crate::style::{clean, short};

impl Show for TunnelPing {
    fn text(&self, view: &View) -> String {
        let mut text = format!(
            "--- {} ping statistics ---\n{} packets transmitted, {} received, {:.1} % lost, time {}\n",
            clean(&self.peer),
            self.sent,
            self.received,
            self.loss_percent,
            short(self.duration_seconds)
        );
        if let Some(rtt) = &self.rtt {
            text.push_str(&format!(
                "rtt min/avg/max/mdev = {} / {} / {} / {}\n",
                short(rtt.min_seconds),
                short(rtt.avg_seconds),
                short(rtt.max_seconds),
                short(rtt.deviation_seconds)
            ));
            return text;
        }
        text.push_str(
            "nothing was answered: the tunnel carries nothing, or the peer does not speak Kedge's echo\n",
        );
        text + &view.next(&[format!("kedge tunnel show {}", clean(&self.peer))])
    }

    fn names(&self) -> Vec<String> {
        vec![self.peer.clone()]
    }
}
