//! The executable as people and scripts use it: output, errors, exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn kedge(root: &Path, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_kedge"))
        .arg("--root")
        .arg(root)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    ran(&output, root)
}

fn ran(output: &Output, root: &Path) -> Ran {
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec())
            .unwrap()
            .replace(&root.display().to_string(), "ROOT")
    };
    Ran {
        code: output.status.code().expect("no signal"),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

fn root() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_weight_that_moves_nothing_is_noted_where_the_configuration_is_checked() {
    let root = root();
    let check = |preempt: &str, failure: &str| {
        let text = format!(
            "vips: {{api: {{addresses: [10.20.14.10]{preempt}, track: {{up: {{interface: eth1, \
             {failure}}}}}}}}}\n"
        );
        write(root.path(), "etc/kedge/agent.yaml", &text);
        let ran = kedge(root.path(), &["config", "check"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    let told = check("", "weight: -20");
    assert!(
        told.contains("note: vips.api.track: a weight moves the VIP only to a host"),
        "{told}"
    );
    assert!(!check(", preempt: true", "weight: -20").contains("note:"));
    assert!(!check("", "critical: true").contains("note:"));
}

#[test]
fn the_version_is_short_and_also_data() {
    let root = root();
    let version = env!("CARGO_PKG_VERSION");
    let ran = kedge(root.path(), &["version"]);
    assert_eq!((ran.code, ran.out), (0, format!("kedge {version}\n")));
    let ran = kedge(root.path(), &["version", "-o", "json"]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["kind"], "Version");
    assert_eq!(json["version"], version);
    assert_eq!(
        kedge(root.path(), &["--version"]).out,
        format!("kedge {version}\n")
    );
}

#[test]
fn a_code_is_explained_offline() {
    let root = root();
    let ran = kedge(root.path(), &["explain", "KEDGE-CFG-0002"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.out
            .starts_with("KEDGE-CFG-0002: a configuration file has a key")
    );
    let ran = kedge(root.path(), &["explain"]);
    assert!(ran.out.lines().count() > 50);
    let ran = kedge(root.path(), &["explain", "KEDGE-VIP-9999"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("KEDGE-SYS-0003"), "{}", ran.err);
    assert!(ran.err.contains("did you mean KEDGE-VIP-"), "{}", ran.err);
}

#[test]
fn a_configuration_that_holds_is_said_to_hold() {
    let root = root();
    let ran = kedge(root.path(), &["config", "check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("no file, defaults only"), "{}", ran.out);
    write(
        root.path(),
        "etc/kedge/agent.yaml",
        "version: 1\nvips:\n  api:\n    addresses: [10.20.14.10]\n",
    );
    let ran = kedge(root.path(), &["config", "check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("1 file\n  ROOT/etc/kedge/agent.yaml"),
        "{}",
        ran.out
    );
}

#[test]
fn a_bad_file_is_shown_at_the_character_and_ends_in_1() {
    let root = root();
    write(
        root.path(),
        "bad/agent.yaml",
        "vips:\n  api:\n    addresses: [10.20.14.10]\n    vird: 51\n",
    );
    let file = root.path().join("bad/agent.yaml");
    let ran = kedge(root.path(), &["config", "check", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    insta::assert_snapshot!(ran.err, @r"
    error: ROOT/bad/agent.yaml:4:5: unknown key `vird`
        3 |     addresses: [10.20.14.10]
        4 |     vird: 51
          |     ^^^^ did you mean `vrid`?
      so: the configuration is not used; what ran before goes on running
      fix: did you mean `vrid`?
           kedge config check ROOT/bad/agent.yaml
      KEDGE-CFG-0002, more: kedge explain KEDGE-CFG-0002
    1 error; the configuration is not used
    ");

    let ran = kedge(
        root.path(),
        &["config", "check", file.to_str().unwrap(), "-o", "json"],
    );
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["kind"], "ConfigCheck");
    assert_eq!(json["ok"], false);
    assert_eq!(json["problems"][0]["code"], "KEDGE-CFG-0002");

    let ran = kedge(root.path(), &["config", "check", "/nonexistent/agent.yaml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("KEDGE-CFG-0004"), "{}", ran.err);
}

#[test]
fn every_bad_layer_is_told_at_once() {
    let root = root();
    write(
        root.path(),
        "etc/kedge/agent.yaml",
        "vips: {api: {priority: 300}}\n",
    );
    write(root.path(), "etc/kedge/agent.yaml.d/a.yaml", "tunel: {}\n");
    let ran = kedge(root.path(), &["config", "check"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("agent.yaml:1:24: "), "{}", ran.err);
    assert!(
        ran.err.contains("a.yaml:1:1: unknown key `tunel`"),
        "{}",
        ran.err
    );
    assert!(
        ran.err
            .trim_end()
            .ends_with("2 errors; the configuration is not used")
    );
}

#[test]
fn the_merged_configuration_says_who_set_what() {
    let root = root();
    write(
        root.path(),
        "etc/kedge/agent.yaml",
        "tunnel:\n  listen_port: 51820\n",
    );
    let ran = kedge(root.path(), &["config", "view", "--origins"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line = ran
        .out
        .lines()
        .find(|line| line.starts_with("tunnel.listen_port"));
    assert!(
        line.unwrap().ends_with("ROOT/etc/kedge/agent.yaml:2:16"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains(" default"), "{}", ran.out);
    let ran = kedge(root.path(), &["config", "view"]);
    assert!(
        ran.out.starts_with("# read: ROOT/etc/kedge/agent.yaml\n"),
        "{}",
        ran.out
    );
}

#[test]
fn defaults_and_schemas_fit_together() {
    let root = root();
    for role in ["agent", "gateway", "manager"] {
        let ran = kedge(root.path(), &["config", "default", "--role", role]);
        assert!(
            ran.out.starts_with("# yaml-language-server: $schema="),
            "{}",
            ran.out
        );
        let path = format!("default/{role}.yaml");
        write(root.path(), &path, &ran.out);
        let file = root.path().join(path);
        let ran = kedge(root.path(), &["config", "check", file.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{role}: {}", ran.err);
        assert!(
            ran.out.contains(&format!("the {role}'s configuration")),
            "{}",
            ran.out
        );
        let ran = kedge(root.path(), &["config", "schema", "--role", role]);
        let schema: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(schema["additionalProperties"], false, "{role}");
    }
}

#[test]
fn a_role_that_does_not_run_is_exit_3() {
    let root = root();
    for args in [
        &["status"][..],
        &["vip", "list"],
        &["tunnel", "show", "gw-0"],
        &["fleet", "hosts"],
        &["token", "list"],
        &["config", "view", "--running"],
    ] {
        let ran = kedge(root.path(), args);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{args:?}");
        assert!(ran.err.contains("KEDGE-HOST-0004"), "{args:?}: {}", ran.err);
    }
    let ran = kedge(root.path(), &["status", "-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (3, ""));
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["kind"], "Problem");
    assert_eq!(json["code"], "KEDGE-HOST-0004");
    assert_eq!(json["fix"]["command"], "sudo kedge --root ROOT agent");
}

#[test]
fn what_cannot_be_understood_is_exit_2_and_a_hint() {
    let root = root();
    let ran = kedge(root.path(), &["staus"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("'status'"), "{}", ran.err);
    assert!(ran.err.contains("KEDGE-SYS-0002"), "{}", ran.err);
    let ran = kedge(root.path(), &["staus", "-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (2, ""));
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["kind"], "Problem");
    assert_eq!(json["code"], "KEDGE-SYS-0002");
    assert_eq!(json["what"], "unrecognized subcommand 'staus'");
    assert_eq!(kedge(root.path(), &["vip", "show", ".."]).code, 2);
    assert_eq!(kedge(root.path(), &["status", "--timeout", "5"]).code, 2);
    let nobody = kedge(root.path(), &["token", "create"]);
    assert_eq!(nobody.code, 2);
    assert!(
        nobody.err.contains("--tenant") && nobody.err.contains("--gateway"),
        "{}",
        nobody.err
    );
    for wrong in [
        &["--tenant", "t", "--gateway", "g"][..],
        &["--gateway", "g", "--host", "h"],
        &["--tenant", "t", "--ttl", "0s"],
        &["--tenant", "t", "--ttl", "31d"],
        &["--tenant", "t", "--ttl", "1500ms"],
    ] {
        let ran = kedge(root.path(), &[&["token", "create"], wrong].concat());
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.err);
    }
    assert_eq!(kedge(root.path(), &[]).code, 2);
}

#[test]
fn help_lists_the_exit_codes() {
    let ran = kedge(&root().path().join("x"), &["--help"]);
    assert_eq!(ran.code, 0);
    for line in ["0  ok", "3  the role is not running", "9  "] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    assert!(!ran.out.contains("lab-role"));
}

#[cfg(feature = "envoy")]
#[test]
fn what_an_envoy_starts_with_is_shown_and_written_where_it_looks() {
    use std::os::unix::fs::PermissionsExt as _;

    let root = root();
    write(
        root.path(),
        "etc/kedge/gateway.yaml",
        "version: 1\nproxy: {engine: envoy, max_connections: 7}\n",
    );
    let shown = kedge(root.path(), &["gateway", "bootstrap"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    let config: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(
        config["admin"]["address"]["pipe"]["path"],
        "ROOT/run/kedge/envoy/admin.sock"
    );
    assert!(
        shown
            .out
            .contains(r#""max_active_downstream_connections":7"#)
    );
    let folder = root.path().join("run/kedge/envoy");
    assert!(!folder.exists(), "showing writes nothing");

    let written = kedge(root.path(), &["gateway", "bootstrap", "--write"]);
    assert_eq!(written.out, "ROOT/run/kedge/envoy/envoy.json\n");
    let text = fs::read_to_string(folder.join("envoy.json")).unwrap();
    let text = text.replace(&root.path().display().to_string(), "ROOT");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), config);
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let other = kedge(
        root.path(),
        &["gateway", "bootstrap", "--set", "proxy.engine=builtin"],
    );
    assert_eq!((other.code, &*other.out), (1, ""));
    assert!(other.err.contains("no Envoy is to be beside this gateway"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let root = root();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kedge"))
        .args(["--root", root.path().to_str().unwrap(), "explain"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let ran = ran(&output, root.path());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn completions_and_man_pages_are_written() {
    let root = root();
    let ran = kedge(root.path(), &["completions", "bash"]);
    assert!(ran.out.contains("_kedge"));
    let dir = root.path().join("man");
    let ran = kedge(root.path(), &["man", dir.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = fs::read_to_string(dir.join("kedge-vip-explain.1")).unwrap();
    assert!(page.contains("why a VIP is where it is"));
}

#[test]
fn a_role_with_a_bad_configuration_says_all_of_it_and_does_not_start() {
    let root = root();
    for role in ["agent", "gateway"] {
        write(
            root.path(),
            &format!("etc/kedge/{role}.yaml"),
            "tunel: {}\n",
        );
        let ran = kedge(root.path(), &[role, "--set", "tunnel.listen_port=70000"]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{role}");
        assert!(
            ran.err
                .contains(&format!("{role}.yaml:1:1: unknown key `tunel`")),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("flag --set"), "{}", ran.err);
    }
    assert_eq!(kedge(root.path(), &["agent", "--set", "nonsense"]).code, 2);
}

#[test]
fn the_chart_calls_the_clean_up_as_the_command_line_has_it() {
    let root = root();
    let template = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/kubernetes/chart/templates/uninstall.yaml");
    let template = fs::read_to_string(template).unwrap();
    let (_, args) = template.split_once("args: [").unwrap();
    let (args, _) = args.split_once(']').unwrap();
    let args: Vec<&str> = args.split(", ").collect();
    assert_eq!(args[..2], ["k8s", "uninstall"]);
    // There is no cluster around this process: it is understood, and says so.
    let ran = kedge(root.path(), &args);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("cluster around"), "{}", ran.err);

    // Nobody can be asked, and nobody said yes.
    let ran = kedge(root.path(), &["k8s", "uninstall", "--kubeconfig", "/none"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("--dry-run"), "{}", ran.err);
}

#[test]
fn who_cannot_be_asked_is_told_how_to_say_the_same_and_yes() {
    let root = root();
    for command in [
        "kedge k8s uninstall --kubeconfig /none --stop kedge-manager",
        "kedge fleet rotate-ca --overlap 60d",
    ] {
        let args: Vec<&str> = command.split(' ').skip(1).collect();
        let ran = kedge(root.path(), &args);
        assert_eq!(ran.code, 2, "{}", ran.err);
        let both = [format!("{command} --yes"), "--dry-run".to_owned()];
        assert!(both.iter().all(|it| ran.err.contains(it)), "{}", ran.err);
    }
}

#[test]
fn who_waits_for_a_vip_is_told_when_it_takes_too_long() {
    let root = root();
    let ran = kedge(root.path(), &["vip", "wait", "--timeout", "300ms"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(ran.err.contains("within 300ms"), "{}", ran.err);
}
