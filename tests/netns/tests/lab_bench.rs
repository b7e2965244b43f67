//! The frame of measurements, with one run of each fault: enough to prove the object, not to
//! judge the numbers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::process::{Command, Stdio};

use kedge_tests_netns::on_a_steady_machine;
use serde_json::Value;

#[test]
fn bench_vip_puts_kedge_beside_keepalived_in_one_object() {
    on_a_steady_machine(|| {
        let output = Command::new(env!("CARGO_BIN_EXE_kedge-under-test"))
            .args(["lab", "bench", "vip", "--runs", "1", "-o", "json"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let chatter = String::from_utf8_lossy(&output.stderr);
        let result: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}\n{chatter}"));
        println!("{chatter}\n{result:#}");
        assert_eq!(result["kind"], "BenchResult");
        assert_eq!(output.status.success(), result["ok"].as_bool().unwrap());
        for key in ["date", "kernel", "cpu", "command"] {
            assert!(!result[key].as_str().unwrap().is_empty(), "{key}");
        }
        let row = |metric: &str| {
            let rows = result["rows"].as_array().unwrap();
            rows.iter()
                .find(|row| row["metric"].as_str().unwrap().starts_with(metric))
                .unwrap()
        };
        let seconds = |value: &Value| value.as_f64().unwrap();

        let death = row("host death: outage, 100 ms");
        assert_eq!(death["n"], 1);
        // Two adverts at least: an outage cannot be shorter than what the protocol waits for.
        assert!((0.19..0.6).contains(&seconds(&death["p50"])), "{death}");
        assert!((0.19..0.6).contains(&seconds(&death["peerP50"])), "{death}");
        assert_eq!(seconds(&row("graceful stop: lost")["max"]), 0.0);
        assert!(seconds(&row("graceful stop: lost")["peerP50"]) > 0.0);
        assert_eq!(seconds(&row("agent kill: lost")["max"]), 0.0);
        let default = row("host death: outage, each by default");
        assert!(seconds(&default["peerP50"]) > 2.0, "{default}");
        assert!(
            seconds(&default["ratio"]) > 5.0 && default["met"] == true,
            "{default}"
        );
    });
}
