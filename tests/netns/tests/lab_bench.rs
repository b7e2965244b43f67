//! The frame of measurements, with one run of each fault: enough to prove the object, not to
//! judge the numbers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code"
)]

use std::process::{Command, Stdio};

use kedge_tests_netns::{envoy, gobgp::GoBgp, on_a_steady_machine, ready};
use serde_json::Value;

/// The one object of a bench, which says itself whether its goals were met.
fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_kedge-under-test"))
        .args(["lab", "bench"])
        .args(arguments)
        .args(["-o", "json"])
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
    result
}

/// The row of a metric, with one sample or more.
fn row<'a>(result: &'a Value, metric: &str) -> &'a Value {
    let rows = result["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["metric"] == metric);
    let row = row.unwrap_or_else(|| panic!("{metric}"));
    assert!(row["n"].as_u64().unwrap() > 0, "{row}");
    row
}

fn nothing_is_left(result: &Value) {
    let notes = result["notes"].to_string();
    assert!(!notes.contains("Left behind"), "{notes}");
}

#[test]
fn bench_tunnel_puts_both_cores_beside_wireguard_go() {
    if !ready() {
        return;
    }
    let result = bench(&["tunnel", "--runs", "1", "--part", "load,changes"]);
    for core in ["", "own_core."] {
        for metric in ["tcp.", "tcp.cpu_", "vxlan.", "udp64.cpu_"] {
            let row = row(&result, &format!("{core}{metric}vs_wireguard_go"));
            assert_eq!(row["peer"], "wireguard-go");
            for value in ["p50", "peerP50", "ratio"] {
                assert!(row[value].as_f64().unwrap() > 0.0, "{row}");
            }
        }
        let share = row(&result, &format!("{core}tcp.share_of_limit"));
        assert!(share["p50"].as_f64().unwrap() > 0.0, "{share}");
        let memory = row(&result, &format!("{core}rss_line_rate"));
        assert!(memory["p50"].as_f64().unwrap() > 0.0, "{memory}");
        let lost = row(&result, &format!("{core}syncconf.lost"));
        assert_eq!(lost["max"], 0.0, "{lost}");
    }
    nothing_is_left(&result);
}

#[test]
fn bench_tunnel_calls_gateways_and_kills_them() {
    on_a_steady_machine(|| {
        let result = bench(&["tunnel", "--runs", "1", "--part", "storm,gateways"]);
        let storm = row(&result, "storm_2000");
        // Hosts that get no session are said to have waited a minute.
        assert!(storm["max"].as_f64().unwrap() < 60.0, "{storm}");
        for metric in ["peer_memory.dormant", "peer_memory.active"] {
            assert!(row(&result, metric)["p50"].as_f64().unwrap() > 0.0);
        }
        let failover = row(&result, "gateway_failover");
        assert_eq!(failover["n"], 4);
        // Three packets of BFD at least: nobody is called lost before that.
        assert!(failover["p50"].as_f64().unwrap() > 0.2, "{failover}");
        assert_eq!(row(&result, "drain.lost")["max"], 0.0);
        nothing_is_left(&result);
    });
}

#[test]
fn bench_vip_puts_kedge_beside_keepalived_in_one_object() {
    on_a_steady_machine(|| {
        let result = bench(&["vip", "--runs", "1", "--soak", "1", "--idle", "1"]);
        let row = |metric: &str| {
            let rows = result["rows"].as_array().unwrap();
            rows.iter()
                .find(|row| row["metric"].as_str().unwrap().starts_with(metric))
                .unwrap()
        };
        let seconds = |value: &Value| value.as_f64().unwrap();

        let death = row("dead_host.default");
        assert_eq!(death["n"], 1);
        // Two adverts at least: an outage cannot be shorter than what the protocol waits for.
        assert!((0.19..0.6).contains(&seconds(&death["p50"])), "{death}");
        assert!((0.19..0.6).contains(&seconds(&death["peerP50"])), "{death}");
        for metric in ["sigkill.lost", "stop.lost", "reload.lost", "upgrade.lost"] {
            assert_eq!(seconds(&row(metric)["max"]), 0.0, "{metric}");
        }
        assert!(seconds(&row("stop.lost")["peerP50"]) > 0.0);
        assert_eq!(row("sigkill.lost")["n"], 10);
        assert_eq!(seconds(&row("sigkill.stale")["max"]), 0.0);
        // Without a guardian three adverts would be waited for.
        assert!(seconds(&row("sigkill.switch")["max"]) < 0.2);
        let hung = row("hung.fenced");
        assert!(seconds(&hung["max"]) < 0.35, "{hung}");
        assert!(seconds(&hung["peerP50"]) > 1.0, "{hung}");
        let fast = row("dead_host.fast");
        assert!((0.019..0.1).contains(&seconds(&fast["p50"])), "{fast}");
        for metric in ["pss", "cpu"] {
            assert!(seconds(&row(metric)["p50"]) > 0.0, "{metric}");
        }
        let default = row("dead_host.each_by_default");
        assert!(seconds(&default["peerP50"]) > 2.0, "{default}");
        assert!(
            seconds(&default["ratio"]) > 5.0 && default["met"] == true,
            "{default}"
        );
    });
}

#[test]
fn bench_bgp_puts_kedge_beside_bird_and_gobgp_in_one_object() {
    if !GoBgp::is_there() {
        return;
    }
    on_a_steady_machine(|| {
        let parts = "speaker-death,cut,announce,bfd-cost";
        let result = bench(&["bgp", "--runs", "1", "--idle", "1", "--part", parts]);
        let seconds = |value: &Value| value.as_f64().unwrap();
        // A connection that closes is heard long before BFD would say anything, or a hold time. BIRD as an
        // announcer takes three seconds for the last routes.
        for (metric, limit) in [("speaker_death", 1.0), ("announce_1000", 5.0)] {
            let [first, second] = ["", ".slower_peer"].map(|it| format!("{metric}{it}"));
            let (first, second) = (row(&result, &first), row(&result, &second));
            let mut peers = [&first["peer"], &second["peer"]].map(|it| it.as_str().unwrap());
            peers.sort_unstable();
            assert_eq!(peers, ["BIRD", "GoBGP"]);
            assert!(!first["must"].as_str().unwrap().is_empty(), "{first}");
            assert!(seconds(&first["peerP50"]) <= seconds(&second["peerP50"]));
            for row in [first, second] {
                assert!((1e-5..1.0).contains(&seconds(&row["p50"])), "{row}");
                assert!((1e-5..limit).contains(&seconds(&row["peerP50"])), "{row}");
            }
        }
        // Two intervals at least: nobody is called lost before that.
        let cut = row(&result, "bfd_50ms");
        for value in ["p50", "peerP50"] {
            assert!((0.1..0.5).contains(&seconds(&cut[value])), "{cut}");
        }
        for metric in ["bfd_packet_cpu.8", "bfd_packet_cpu.64"] {
            let row = row(&result, metric);
            assert!(seconds(&row["p50"]) > 0.0 && seconds(&row["peerP50"]) > 0.0);
        }
        for metric in ["bfd_machine.heard", "bfd_machine.heard_and_sent"] {
            assert!(seconds(&row(&result, metric)["p50"]) > 0.0);
        }
        let rows = result["rows"].as_array().unwrap();
        let is_flaps = |row: &Value| row["metric"] == "bfd_256.flaps";
        assert!(!rows.iter().any(is_flaps), "it was not asked for");
        nothing_is_left(&result);
    });
}

#[test]
fn bench_lb_produces_every_row() {
    let Some(envoy) = envoy::executable().filter(|_| ready()) else {
        return;
    };
    let envoy = envoy.to_str().unwrap();
    let result = bench(&["lb", "--quick", "--runs", "1", "--envoy", envoy]);
    for metric in [
        "endpoint_change",
        "endpoint_change.sotw_ratio",
        "endpoint_change.one_service",
        "endpoint_change.plan",
        "add_service",
        "add_service.sotw_ratio",
        "add_service.plan",
        "envoy_kb_per_service",
        "envoy_kb_per_service.checks",
        "envoy_kb_per_service.two_threads",
        "restart.reattach",
        "restart.manager_change",
        "add_service.object",
        "builtin.cpu_ratio",
        "builtin.cpu_ratio.connect",
        "builtin.rss",
    ] {
        let row = row(&result, metric);
        assert!(row["p50"].as_f64().unwrap() > 0.0, "{row}");
    }
    // Everything told again costs more than one resource, however few there are.
    let whole = row(&result, "endpoint_change.sotw_ratio");
    assert!(whole["peerP50"].as_f64().unwrap() > 0.0, "{whole}");
    // Nothing of it is a matter of pace.
    for metric in [
        "removed_picks",
        "restart.dropped",
        "restart.manager_dropped",
        "builtin.refused",
        "envoy.refused",
    ] {
        assert_eq!(row(&result, metric)["max"], 0.0, "{metric}");
    }
    // The tunnel takes a moment to miss a host, and checks as well. Meanwhile Envoy tries another one, so that few
    // connections fail, or none.
    for metric in ["blackhole.late", "blackhole.checks"] {
        let row = row(&result, metric);
        let last = row["max"].as_f64().unwrap();
        assert!((0.1..4.9).contains(&last), "{row}");
    }
    let fails = row(&result, "blackhole");
    assert!(fails["max"].as_f64().unwrap() < 4.9, "{fails}");
    nothing_is_left(&result);
}
