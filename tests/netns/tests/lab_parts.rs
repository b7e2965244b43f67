//! The lab's own parts: what it measures with must be right before anything is measured.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{net::SocketAddr, path::PathBuf, thread, time::Instant};

use kedge_agent_lab::{
    Output, certificate::Authority, client, lab::Lab, prober::Prober, stage::Stage,
    topology::Topology,
};
use kedge_tests_netns::{eventually, millis, on_a_steady_machine, secs};

const HOST: &str = "10.20.14.11";

fn lan() -> (Lab, Stage) {
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_kedge-under-test"));
    let (lab, _) = Lab::build(Topology::lan(), executable).unwrap();
    (lab, Stage::new(Output::Json).unwrap())
}

#[test]
fn the_prober_measures_a_cut_as_long_as_it_was() {
    on_a_steady_machine(|| {
        let (mut lab, stage) = lan();
        lab.start_role(
            "edge-a",
            "echo",
            ["echo", "--name", "edge-a", "--listen", "0.0.0.0:6443"],
        )
        .unwrap();
        let target: SocketAddr = format!("{HOST}:6443").parse().unwrap();
        let prober = Prober::start(&lab, "client", target).unwrap();
        assert_eq!(prober.wait_for_answer(&stage, secs(5)).unwrap(), "edge-a");
        thread::sleep(millis(200));

        let begun = Instant::now();
        lab.cut("edge-a").unwrap();
        let certain = Instant::now();
        thread::sleep(millis(300));
        // A busy machine returns from either call a while after the port has moved.
        let at_least = certain.elapsed().as_secs_f64();
        lab.heal("edge-a").unwrap();
        let at_most = begun.elapsed().as_secs_f64();
        // The train goes on until the host has answered again for a while.
        thread::sleep(millis(700));
        let report = prober.finish().unwrap();
        println!(
            "cut {at_least:.4} to {at_most:.4} s, measured {:.4} s, {report:?}",
            report.outage_seconds
        );

        let longest = report
            .gaps
            .iter()
            .max_by(|a, b| a.seconds.total_cmp(&b.seconds))
            .unwrap();
        assert!(!longest.open, "it did not answer again");
        // Carrier comes back a moment after the port.
        assert!(
            report.outage_seconds > at_least - 0.02 && report.outage_seen_seconds() < at_most + 0.3,
            "{}",
            report.outage_seconds
        );
        // One probe per millisecond, but for the ticks the prober overslept on a busy machine, which it
        // counts.
        let (lost, seconds) = (longest.lost as f64 / 1000.0, longest.seconds);
        let overslept = report.missed_ticks as f64 / 1000.0;
        let slack = 0.1 * seconds + 0.01;
        assert!(lost < seconds + slack, "more probes than milliseconds");
        assert!(lost + overslept > seconds - slack, "one probe per ms");
        assert_eq!(report.responders.keys().collect::<Vec<_>>(), ["edge-a"]);
        assert!(report.switches.is_empty());
        assert_eq!(lab.take_down(), Vec::<String>::new());
    });
}

#[test]
fn the_stand_in_is_believed_under_the_labs_ca_and_under_no_other() {
    on_a_steady_machine(|| {
        let (mut lab, _) = lan();
        let authority = Authority::new().unwrap();
        let files = authority.issue(
            &lab.root("edge-a").join("pki"),
            "edge-a",
            &[HOST.parse().unwrap()],
        );
        let files = files.unwrap();
        let (certificate, key) = (
            files.certificate.to_str().unwrap(),
            files.key.to_str().unwrap(),
        );
        let arguments = [
            "apiserver",
            "--name",
            "edge-a",
            "--certificate",
            certificate,
            "--key",
            key,
        ];
        lab.start_role("edge-a", "apiserver", arguments).unwrap();
        let target: SocketAddr = format!("{HOST}:6443").parse().unwrap();
        let ask = |lab: &Lab, roots, path: &'static str| {
            lab.worker("client")
                .unwrap()
                .run(move || client::https(target, roots, path))
                .unwrap()
        };
        eventually("it is ready", secs(5), || {
            ask(&lab, authority.roots(), "/readyz").is_ok()
        });
        let version = ask(&lab, authority.roots(), "/version").unwrap();
        let version: serde_json::Value = serde_json::from_slice(&version.body).unwrap();
        assert_eq!(version["servedBy"], "edge-a");

        let stranger = Authority::new().unwrap();
        assert!(
            ask(&lab, stranger.roots(), "/version").is_err(),
            "a stranger's CA is believed"
        );
        lab.kill_host("edge-a").unwrap();
        assert!(
            ask(&lab, authority.roots(), "/version").is_err(),
            "a dead host answers"
        );
    });
}
