use std::{os::unix::fs::PermissionsExt as _, time::Instant};

use super::*;

fn shell(text: &str) -> Script {
    Script {
        program: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        user: geteuid().as_raw().to_string(),
        timeout: Duration::from_secs(20),
    }
}

fn is_root() -> bool {
    geteuid().is_root()
}

#[tokio::test]
async fn the_exit_code_is_the_answer_and_the_last_line_the_reason() {
    let good = shell("echo well; exit 0").run().await;
    assert!(good.is_good());
    let bad = shell("echo one; echo; echo 'no route\t' >&2; exit 3")
        .run()
        .await;
    assert!(!bad.is_good());
    assert_eq!(bad.to_string(), "ended with 3: no route");
    let silent = shell("exit 1").run().await;
    assert_eq!(silent.to_string(), "ended with 1");
    let killed = shell("kill -9 $$").run().await;
    assert_eq!(killed.to_string(), "was killed by signal 9");
}

#[tokio::test]
async fn a_script_that_takes_too_long_is_killed_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let text = format!("sleep 600 & echo $! > {}; echo waits; wait", pids.display());
    let slow = Script {
        timeout: Duration::from_millis(700),
        ..shell(&text)
    };
    let start = Instant::now();
    let outcome = slow.run().await;
    assert_eq!(
        outcome.to_string(),
        "took longer than 700ms and was killed: waits"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    let child = fs::read_to_string(&pids).unwrap();
    let gone = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        stat.map_or(true, |stat| stat.contains(") Z"))
    };
    while !gone() {
        assert!(start.elapsed() < Duration::from_secs(10), "its child lives");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_left_behind_holding_its_output_delays_nothing() {
    let start = Instant::now();
    let outcome = shell("sleep 5 & echo done").run().await;
    assert_eq!(outcome.to_string(), "ended with 0: done");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn output_is_bounded_and_shown_without_control_characters() {
    let outcome = shell("yes 0123456789 | head -c 3000000; printf 'a\\033[31mb'; exit 1")
        .run()
        .await;
    let Outcome::Ended { last, .. } = &outcome else {
        panic!("{outcome}");
    };
    assert!(
        last.ends_with("a[31mb") && last.chars().count() <= SHOWN,
        "{last}"
    );
}

#[tokio::test]
async fn it_runs_as_nobody_without_groups_and_without_our_environment() {
    if !is_root() {
        return;
    }
    let asked = Script {
        user: "nobody".to_owned(),
        ..shell("echo $(id -u) $(id -G) ${HOME-none} $(pwd)")
    };
    let Outcome::Ended { last, .. } = asked.run().await else {
        panic!("it was not run");
    };
    let Account { uid, gid } = Account::find("nobody").unwrap().unwrap();
    assert_eq!(last, format!("{uid} {gid} none /"));
}

#[tokio::test]
async fn what_cannot_be_run_says_why() {
    let missing = Script {
        program: "/nowhere/check".into(),
        user: "nobody".to_owned(),
        ..shell("")
    };
    let told = missing.run().await.to_string();
    assert!(
        told.starts_with("was not run: it cannot be started: No such file"),
        "{told}"
    );
    let stranger = Script {
        user: "nobody-we-know".to_owned(),
        ..shell("")
    };
    let told = stranger.run().await.to_string();
    assert_eq!(told, "was not run: there is no user nobody-we-know");
}

#[tokio::test]
async fn as_root_nothing_runs_that_others_can_change() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let check = dir.path().join("check.sh");
    fs::write(&check, "#!/bin/sh\nexit 0\n").unwrap();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let as_root = Script {
        program: check.clone(),
        arguments: Vec::new(),
        ..shell("")
    };
    mode(&check, 0o755);
    let outcome = as_root.run().await;
    assert!(outcome.is_good(), "{outcome}");
    mode(&check, 0o775);
    let told = as_root.run().await.to_string();
    assert!(
        told.contains("can be changed by others than root"),
        "{told}"
    );
    mode(&check, 0o755);
    mode(dir.path(), 0o777);
    let told = as_root.run().await.to_string();
    assert!(
        told.contains("can be changed by others than root"),
        "{told}"
    );
    mode(dir.path(), 0o755);
    // Nor by way of a link that somebody can turn elsewhere.
    let open = tempfile::tempdir().unwrap();
    mode(open.path(), 0o777);
    std::os::unix::fs::symlink(&check, open.path().join("link")).unwrap();
    let linked = Script {
        program: open.path().join("link"),
        ..as_root
    };
    assert!(!linked.run().await.is_good());
}
