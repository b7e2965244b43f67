//! The manager's bench with a small fleet: it runs to its end and gives every row. How good the
//! figures are is not asked of a debug build beside other tests.

use std::{process::Command, time::Duration};

use kedge_tests_kube::{
    assets::{Program, ready},
    process::Process,
};

#[test]
fn the_managers_bench_runs_to_its_end_and_gives_every_row() {
    if !ready(&[Program::Etcd, Program::ApiServer]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let api_server = Program::ApiServer.path().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kedge-on-kubernetes"));
    command
        .args("lab bench manager --hosts 40 --clusters 4 --runs 3 --idle 3".split(' '))
        .args(["--output", "json"])
        .env("KUBEBUILDER_ASSETS", api_server.parent().unwrap());
    let mut bench = Process::start("bench", folder.path(), &command).unwrap();
    let ended = bench.wait(Duration::from_secs(240));
    let said = std::fs::read_to_string(bench.log()).unwrap();
    // 1: a goal was missed.
    let code = ended.and_then(|status| status.code());
    assert!(matches!(code, Some(0 | 1)), "{code:?}\n{said}");
    // What it tells on the way stands before the one object.
    let from = said.find("\n{\n").unwrap_or_else(|| panic!("{said}"));
    let result: serde_json::Value = serde_json::from_str(&said[from..]).unwrap();
    assert_eq!(result["kind"], "BenchResult", "{said}");
    let rows = result["rows"].as_array().unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["metric"].as_str().unwrap())
        .collect();
    let wanted = [
        "sync_10k.beyond_list",
        "rss_10k",
        "noop_rate",
        "idle_writes",
        "fill",
        "enrol_1000",
    ];
    assert_eq!(names, wanted);
    for row in rows {
        let (name, n) = (&row["metric"], row["n"].as_u64().unwrap());
        assert!(n > 0, "{name} was not measured");
        let is_rest = *name == "idle_writes" || *name == "sync_10k.beyond_list";
        assert!(
            is_rest || row["p50"].as_f64().unwrap() > 0.0,
            "{name}: {row}"
        );
    }
    assert_eq!(rows[4]["n"], 3);
}
