//! `kedge init` and `kedge up`: what is written, what comes out for whom, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code"
)]

use std::{fs, path::Path, process::Command};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn kedge(root: &Path, args: &str) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_kedge"))
        .arg("--root")
        .arg(root)
        .args(args.split_whitespace())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    Ran {
        code: output.status.code().expect("no signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

const SITE: &str = "init --vip 10.20.14.10/24 --vip fd00:14::10 --health none --interface eth1 \
                    --manager https://203.0.113.9:9443 --token-file /etc/kedge/token";

#[test]
fn what_it_writes_holds_and_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let written = kedge(dir.path(), SITE);
    assert_eq!(written.code, 0, "{}", written.err);
    assert_eq!(written.out, "");
    let path = dir.path().join("etc/kedge/agent.yaml");
    insta::assert_snapshot!("init-file", fs::read_to_string(&path).unwrap());
    let checked = kedge(dir.path(), "config check");
    assert_eq!(checked.code, 0, "{}", checked.err);
    let again = kedge(dir.path(), "init --vip 10.20.14.20");
    assert_eq!(again.code, 8, "{}", again.err);
    assert!(again.err.contains("is there already"), "{}", again.err);
    let shown = kedge(dir.path(), "init --vip 10.20.14.20 --dry-run");
    assert!(shown.out.contains("10.20.14.20"), "{}", shown.out);
    assert!(fs::read_to_string(&path).unwrap().contains("10.20.14.10"));
    assert_eq!(kedge(dir.path(), "init --vip 10.20.14.20 --force").code, 0);
    assert!(fs::read_to_string(&path).unwrap().contains("10.20.14.20"));
}

#[test]
fn each_supplier_brings_the_same_configuration() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, flavour) in [
        ("cloud-init", "--for k3s"),
        ("butane", "--for rke2"),
        ("yip", "--for kubeadm"),
        ("talos", ""),
        ("credential", ""),
    ] {
        let ran = kedge(dir.path(), &format!("{SITE} --emit {kind} {flavour}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        insta::assert_snapshot!(format!("init-{kind}"), ran.out);
        // A file that somebody wrote goes the same way as it is, comments included.
        let own = dir.path().join("site.yaml");
        fs::write(&own, "# ours\nvips:\n  api:\n    addresses: [10.20.14.10]").unwrap();
        let ran = kedge(
            dir.path(),
            &format!("init -f {} --emit {kind} {flavour}", own.display()),
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(
            kind == "credential" || ran.out.contains("# ours\n"),
            "{}",
            ran.out
        );
        let names =
            flavour.is_empty() || ran.out.contains("10.20.14.10\"") || ran.out.contains(":6443");
        assert!(names, "{}", ran.out);
    }
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.yaml");
    fs::write(&bad, "vips: {api: {addresses: [10.20.14.10], vird: 5}}\n").unwrap();
    let file = format!("init -f {} --emit talos", bad.display());
    for (args, code, words) in [
        ("init", 2, "required"),
        ("init --vip 10.20.14", 2, "write an address"),
        (
            "init --vip 10.20.14.10 --interface a/b",
            2,
            "nothing was written",
        ),
        (
            "init --vip 10.20.14.10 --vip 10.20.14.10",
            1,
            "nothing was written",
        ),
        (
            "init --vip 10.20.14.10 --emit talos --for k3s",
            2,
            "cannot come this way",
        ),
        ("init --vip 10.20.14.10 --for k3s", 2, "--emit"),
        ("init --emit talos -f /nonexistent", 1, "cannot be read"),
        (file.as_str(), 1, "vird"),
        ("up", 2, "--vip"),
        ("up --vip 10.20.14.10 --name No", 2, "--name"),
    ] {
        let ran = kedge(dir.path(), args);
        assert_eq!(ran.code, code, "{args}: {}", ran.err);
        assert!(ran.err.contains(words), "{args}: {}", ran.err);
        assert_eq!(ran.out, "", "{args}");
    }
    assert!(!dir.path().join("etc").exists());
}

#[test]
fn up_says_what_it_would_do_and_does_not_without_a_system() {
    let dir = tempfile::tempdir().unwrap();
    let shown = kedge(dir.path(), "up --vip 10.20.14.10 --dry-run");
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.contains("10.20.14.10") && shown.err.contains("until Ctrl-C"));
    let shown = kedge(dir.path(), "up --vip 10.20.14.10 --persist --dry-run");
    assert!(shown.err.contains("enabled and started"), "{}", shown.err);
    assert!(!dir.path().join("etc").exists());
    let kept = kedge(dir.path(), "up --vip 10.20.14.10 --persist");
    assert_eq!(kept.code, 3, "{}", kept.err);
    assert!(kept.err.contains("the system cannot run"), "{}", kept.err);
    assert_eq!(kedge(dir.path(), "config check").code, 0);
}
