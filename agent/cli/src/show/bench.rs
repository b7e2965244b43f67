//! What the way to a peer carries.

use kedge_control::local::{BenchDirection, RoundTrips, TunnelBench};

use super::{Show, View};
use crate::{
    style::{bytes, clean, short},
    table::Table,
};

impl Show for TunnelBench {
    fn text(&self, _view: &View) -> String {
        let mut table = Table::new(&["", "RATE", "AMOUNT", "TIME", "LIMIT", "RTT", "MAX", "LOST"]);
        let [rtt, max] = round_trips(self.idle_rtt.as_ref());
        table.row(["idle", "", "", "", "", &rtt, &max, ""]);
        for item in &self.items {
            let [rtt, max] = round_trips(item.rtt.as_ref());
            table.row([
                match item.direction {
                    BenchDirection::Up => "up",
                    BenchDirection::Down => "down",
                },
                &rate(item.bits_per_second),
                &bytes(item.bytes),
                &short(item.duration_seconds),
                &rate(f64::from(item.limit_mbps) * 1e6),
                &rtt,
                &max,
                &format!("{:.1} % of {}", item.loss_percent, item.sent),
            ]);
        }
        format!(
            "{} {} from {}: one TCP stream each way, and questions beside it\n{}",
            clean(&self.peer),
            self.to,
            self.from,
            table.render()
        )
    }

    fn names(&self) -> Vec<String> {
        vec![self.peer.clone()]
    }
}

fn round_trips(rtt: Option<&RoundTrips>) -> [String; 2] {
    match rtt {
        Some(rtt) => [short(rtt.avg_seconds), short(rtt.max_seconds)],
        None => Default::default(),
    }
}

fn rate(bits: f64) -> String {
    if bits >= 1e9 {
        format!("{:.2} Gbit/s", bits / 1e9)
    } else {
        format!("{:.1} Mbit/s", bits / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use kedge_control::local::BenchItem;

    use super::*;
    use crate::show::tests::view;

    #[test]
    fn each_direction_is_a_line_and_what_was_not_answered_is_a_dash() {
        let bench = TunnelBench {
            peer: "gw-0".to_owned(),
            from: [198, 18, 0, 10].into(),
            to: [198, 18, 0, 1].into(),
            idle_rtt: RoundTrips::of(&[0.0121]),
            items: vec![BenchItem {
                direction: BenchDirection::Up,
                bytes: 48_300_000,
                duration_seconds: 9.0,
                bits_per_second: 38.64e6,
                limit_mbps: 2_000,
                sent: 154,
                received: 0,
                loss_percent: 100.0,
                rtt: None,
            }],
        };
        let text = bench.text(&view());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[2].join(" "), "idle - - - - 12.1 ms 12.1 ms -");
        let up = "up 38.6 Mbit/s 48.3 MB 9.0 s 2.00 Gbit/s - - 100.0 % of 154";
        assert_eq!(lines[3].join(" "), up);
    }
}
