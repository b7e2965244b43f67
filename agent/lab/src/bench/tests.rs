use super::*;

fn result() -> BenchResult {
    BenchResult {
        name: "vip".to_owned(),
        date: "2026-11-21T15:00:00Z".to_owned(),
        kernel: "6.18".to_owned(),
        cpu: "a CPU × 2".to_owned(),
        peer: "Keepalived v2.2.7".to_owned(),
        command: "sudo kedge lab bench vip --runs 20".to_owned(),
        seconds: 100.0,
        ok: true,
        rows: vec![Row {
            metric: "host death".to_owned(),
            unit: "s".to_owned(),
            n: 20,
            p50: 0.25,
            peer_p50: 0.3,
            ratio: 1.2,
            met: true,
            ..Row::default()
        }],
        notes: vec!["a note".to_owned()],
    }
}

#[test]
fn the_object_has_the_keys_that_were_promised() {
    let json = serde_json::to_value(result().document()).unwrap();
    assert_eq!(json["apiVersion"], "cli.kedge.dev/v1");
    assert_eq!(json["kind"], "BenchResult");
    for key in [
        "metric",
        "unit",
        "n",
        "p50",
        "p99",
        "max",
        "peer",
        "peerP50",
        "ratio",
        "must",
        "excellent",
        "met",
    ] {
        assert!(json["rows"][0].get(key).is_some(), "{key}");
    }
}

#[test]
fn the_table_names_what_reproduces_it() {
    let table = result().table();
    for part in [
        "host death",
        "1.20",
        "0.3000",
        "a note",
        "--runs 20",
        "6.18",
        "a CPU × 2",
    ] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
}

#[test]
fn a_part_of_another_bench_is_refused() {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: BenchArgs,
    }
    let args = |line: &str| {
        let words = std::iter::once("bench").chain(line.split(' '));
        <Cli as clap::Parser>::try_parse_from(words).unwrap().args
    };
    let vip = args("vip --part cost");
    assert!(vip.check().is_ok() && vip.wants(Part::Cost) && !vip.wants(Part::Faults));
    assert!(args("vip").wants(Part::Faults), "everything when left out");
    let problem = args("tunnel --part load,soak").check().unwrap_err();
    assert_eq!(problem.code, Code::SysUsage);
    assert!(problem.what.contains("soak"), "{}", problem.what);
    assert!(args("manager --part cost").check().is_err());
    assert!(args("bgp --part cut,announce").check().is_ok());
    assert!(args("bgp --part cost").check().is_err());
}
