use std::fs;

use proptest::prelude::*;

use super::*;

/// Whatever the text says, there is an answer, and what comes out of it holds.
fn survives(kind: &str, text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, text).unwrap();
    let mut report = Report::default();
    let drafts = match kind {
        "keepalived" => keepalived::read(&path, "main", &mut report),
        _ => kube_vip::read(&path, &mut report),
    };
    let drafts = match drafts {
        Ok(drafts) => drafts,
        Err(problem) => return format!("{problem:?}"),
    };
    let made = drafts.len();
    let file = draft::assemble(drafts, &mut report).unwrap();
    let held = file.vips.iter().flatten().count();
    assert!(held <= made);
    let text = yaml(&file, kind).unwrap();
    assert!(!text.is_empty());
    let shown = report_text::text(&report, false, style::Style::PLAIN);
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
    shown
}

/// A word of a keepalived.conf, or of something that wants to be one.
fn word() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "vrrp_instance",
        "global_defs",
        "vrrp_sync_group",
        "vrrp_script",
        "track_script",
        "track_interface",
        "virtual_ipaddress",
        "virtual_ipaddress_excluded",
        "unicast_peer",
        "authentication",
        "auth_type PASS",
        "auth_pass s3cr3t",
        "interface eth0",
        "priority 255",
        "priority 1",
        "virtual_router_id 5",
        "virtual_router_id 0",
        "advert_int 0.01",
        "version 3",
        "nopreempt",
        "state MASTER",
        "weight -300",
        "weight 253 reverse",
        "10.0.0.1/24",
        "fe80::1",
        "dev eth1",
        "{",
        "}",
        "\n",
        "\n",
        "\n",
        "#",
        "!",
        "\"",
        "'",
        "\\",
        "\\\n",
        "@main ",
        "@^x ",
        "$A=",
        "$A= \\\n",
        "${A}",
        "$A",
        "~SEQ(X,1,3) ",
        "include file\n",
        "include *\n",
        "include {a,{b,c}}[!x]*\n",
        "group",
        "VI_1",
    ]);
    prop_oneof![6 => known.prop_map(str::to_owned), 1 => "\\PC{0,6}", 1 => "[ -~\t\u{1b}]{0,4}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_have_an_answer(words in prop::collection::vec(word(), 0..80)) {
        survives("keepalived", &words.join(" "));
    }

    #[test]
    fn any_instance_has_an_answer(words in prop::collection::vec(word(), 0..30)) {
        let body: String = words.iter().filter(|it| !it.contains(['{', '}'])).fold(
            String::new(),
            |text, word| text + word + "\n",
        );
        let shown = survives("keepalived", &format!(
            "vrrp_instance a {{\n{body}\nvirtual_ipaddress {{\n10.0.0.1\n}}\n}}\n\
             vrrp_instance a {{\ninterface eth0\nvirtual_router_id 5\n{body}\n}}\n"
        ));
        prop_assert!(!shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn any_text_has_an_answer(text in "\\PC{0,200}") {
        survives("keepalived", &text);
        survives("kube-vip", &text);
    }

    #[test]
    fn any_setting_has_an_answer(
        name in "(address|vip_address|port|vip_interface|cp_enable|svc_enable|bgp_as|[a-z_]{1,9})",
        value in "(true|false|10.0.0.1|fe80::1|[ -~]{0,12})",
        flag in "-{0,3}[a-zA-Z]{0,8}=?[ -~]{0,6}",
    ) {
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        survives("kube-vip", &format!(
            "kind: Pod\nspec:\n  containers:\n  - image: kube-vip\n    args: [{}, --controlplane]\n    \
             env:\n    - {{name: {name}, value: {}}}\n    - {{name: address, value: 10.0.0.2}}\n",
            quoted(&flag),
            quoted(&value),
        ));
    }
}

#[test]
fn a_sample_may_be_cut_and_bent_anywhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/migrate");
    for (kind, file) in [
        ("keepalived", "keepalived/pair.conf"),
        ("keepalived", "keepalived/newer/mistakes.conf"),
        ("kube-vip", "kube-vip/services-and-bgp.yaml"),
    ] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        for at in (0..text.len()).step_by(7) {
            let cut = survives(kind, &text[..at]);
            let bent = survives(
                kind,
                &format!("{}{}{}", &text[..at], "}\"${", &text[at + 1..]),
            );
            for secret in ["s3cr3t", "hunter2", "00112233"] {
                assert!(
                    !cut.contains(secret) && !bent.contains(secret),
                    "{cut}{bent}"
                );
            }
        }
    }
}

#[test]
fn more_than_any_host_has_is_refused_at_once() {
    let started = std::time::Instant::now();
    let instances = survives("keepalived", &"vrrp_instance a { }\n".repeat(19_000));
    let containers = survives(
        "kube-vip",
        &format!(
            "kind: Pod\nspec:\n  containers:\n{}",
            "  - image: kube-vip\n".repeat(10_000)
        ),
    );
    for refused in [instances, containers] {
        assert!(refused.contains("more addresses"), "{refused}");
    }
    let took = started.elapsed();
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
fn very_many_instances_take_no_time() {
    let instance = |number: usize| {
        format!(
            "vrrp_instance a {{\ninterface eth{number}\nvirtual_router_id 5\nvirtual_ipaddress \
             {{\n10.{}.{}.1\n}}\n}}\n",
            number / 250,
            number % 250,
        )
    };
    let text: String = (0..1_000).map(instance).collect();
    let started = std::time::Instant::now();
    survives("keepalived", &text);
    let took = started.elapsed();
    assert!(took.as_secs() < 20, "{took:?}");
}
