//! `kedge migrate` over a folder of samples: what comes out, what is told, and what is never told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn kedge(folder: &Path, args: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kedge"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads no stdin may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().expect("no signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn samples(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/migrate")
        .join(kind)
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

fn migrate(kind: &str, folder: &Path, file: &str) -> Ran {
    let mut args = vec!["migrate", kind, file];
    if kind == "keepalived" {
        args.extend(["--config-id", "lb-a"]);
    }
    kedge(folder, &args, "")
}

/// What comes out holds, whatever went in.
fn holds(text: &str) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("agent.yaml"), text).unwrap();
    let checked = kedge(dir.path(), &["config", "check", "agent.yaml"], "");
    assert_eq!(checked.code, 0, "{text}\n{}", checked.err);
}

fn every_sample(kind: &str, folder: &Path, prefix: &str) {
    for file in files(folder) {
        let ran = migrate(kind, folder, &file);
        assert_eq!(ran.code, 0, "{file}: {}", ran.err);
        holds(&ran.out);
        let all = format!("{}{}", ran.out, ran.err);
        for secret in ["s3cr3t", "hunter2", "00112233"] {
            assert!(!all.contains(secret), "{file} shows a secret");
        }
        let name = format!("{prefix}-{}", file.split('.').next().unwrap());
        insta::assert_snapshot!(name, format!("{}----\n{}", ran.out, ran.err));
    }
}

#[test]
fn every_sample_of_keepalived_becomes_a_configuration_that_holds() {
    let folder = samples("keepalived");
    every_sample("keepalived", &folder, "keepalived");
    every_sample("keepalived", &folder.join("newer"), "keepalived");
}

#[test]
fn every_sample_of_kube_vip_becomes_a_configuration_that_holds() {
    every_sample("kube-vip", &samples("kube-vip"), "kube-vip");
}

#[test]
fn every_sample_of_wg_quick_becomes_a_configuration_that_holds() {
    every_sample("wg-quick", &samples("wg-quick"), "wg-quick");
}

#[test]
fn keepalived_itself_accepts_the_samples() {
    if Command::new("keepalived")
        .arg("--version")
        .output()
        .is_err()
    {
        let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
        assert!(!required.contains("netns"), "keepalived is not installed");
        eprintln!("skipped: keepalived is not installed");
        return;
    }
    let folder = samples("keepalived");
    for file in files(&folder) {
        // Interfaces of the samples need not be on this machine.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keepalived.conf");
        let sample = folder.join(&file);
        let text = format!(
            "global_defs {{\n  dynamic_interfaces\n}}\ninclude {}\n",
            sample.display()
        );
        fs::write(&path, text).unwrap();
        let output = Command::new("keepalived")
            .args(["-t", "-i", "lb-a", "-l", "--log-console", "-f"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{file}: {said}");
    }
}

#[test]
fn data_is_one_document_and_nothing_goes_to_stderr() {
    let ran = kedge(
        &samples("keepalived"),
        &["migrate", "keepalived", "version3.conf", "-o", "json"],
        "",
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["kind"], "Migration");
    assert_eq!(document["from"], "keepalived");
    assert_eq!(document["config"]["vips"]["kube-api"]["vrid"], 88);
    let items = document["items"].as_array().unwrap();
    let vrid = items
        .iter()
        .find(|item| item["key"] == "vips.kube-api.vrid");
    let vrid = vrid.unwrap();
    assert_eq!(vrid["verdict"], "takenOver");
    assert_eq!(vrid["file"], "version3.conf");
    assert_eq!(vrid["line"], 22);
}

#[test]
fn a_file_is_never_overwritten_by_chance() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.yaml").display().to_string();
    let folder = samples("kube-vip");
    let args = ["migrate", "kube-vip", "pod.yaml", "--write", &path];
    let first = kedge(&folder, &args, "");
    assert_eq!((first.code, first.out.as_str()), (0, ""), "{}", first.err);
    let written = fs::read_to_string(&path).unwrap();
    holds(&written);
    assert!(first.err.contains("kedge config check"), "{}", first.err);
    fs::write(&path, "mine").unwrap();
    let again = kedge(&folder, &args, "");
    assert_eq!(again.code, 8, "{}", again.err);
    assert!(again.err.contains("is there already"), "{}", again.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let forced = kedge(&folder, &[&args[..], &["--force"]].concat(), "");
    assert_eq!(forced.code, 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
}

#[test]
fn stdin_is_a_file_too_and_strict_wants_everything() {
    let folder = samples("kube-vip");
    let text = fs::read_to_string(folder.join("pod.yaml")).unwrap();
    let ran = kedge(&folder, &["migrate", "kube-vip", "-", "--strict"], &text);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("stdin:"), "{}", ran.err);
    holds(&ran.out);
    let simple = "vrrp_instance a {\n version 3\n interface eth0\n virtual_router_id 5\n \
                  priority 9\n virtual_ipaddress {\n 10.0.0.1\n }\n}\n";
    let ran = kedge(&folder, &["migrate", "keepalived", "-", "--strict"], simple);
    assert_eq!(ran.code, 0, "{}", ran.err);
    holds(&ran.out);
}

#[test]
fn what_cannot_be_understood_has_a_code_and_a_place() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, text, code, place) in [
        (
            "keepalived",
            "vrrp_instance a {\n",
            "KEDGE-CFG-0001",
            "stdin:1: ",
        ),
        ("keepalived", "a {\n}}\n", "KEDGE-CFG-0001", "stdin:2: "),
        ("keepalived", "  a \"b\n", "KEDGE-CFG-0001", "stdin:1:5: "),
        ("keepalived", "a\0b", "KEDGE-CFG-0008", "stdin:1:2: "),
        ("kube-vip", "a: [\n", "KEDGE-CFG-0001", "stdin:"),
        ("kube-vip", "a: &x 1\nb: *x\n", "KEDGE-CFG-0008", "stdin:1:"),
        ("kube-vip", "kind: Pod\n", "KEDGE-CFG-0009", "stdin has no"),
        ("wg-quick", "[Peer]\nx\n", "KEDGE-CFG-0001", "stdin:2: "),
        ("wg-quick", "# nothing\n", "KEDGE-CFG-0009", "stdin: no "),
    ] {
        let ran = kedge(dir.path(), &["migrate", kind, "-"], text);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{text}: {}", ran.err);
        assert!(ran.err.contains(code), "{text}: {}", ran.err);
        assert!(ran.err.contains(place), "{text}: {}", ran.err);
        assert!(ran.err.contains("fix: "), "{text}: {}", ran.err);
    }
    let ran = kedge(dir.path(), &["migrate", "keepalived", "none.conf"], "");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("KEDGE-CFG-0004"), "{}", ran.err);
}
