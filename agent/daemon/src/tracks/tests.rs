use std::{fs, path::Path, time::Duration};

use kedge_vip_speaker::Tracked as Sum;

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn of(tracks: &[(&str, Tracked, Failure)]) -> BTreeMap<Name, Of> {
    let tracks = tracks.iter().map(|(called, what, failure)| {
        let (what, failure) = (what.clone(), *failure);
        (name(called), TrackConfig { what, failure })
    });
    BTreeMap::from([(name("api"), tracks.collect())])
}

fn script(path: &Path, rise: u32, fall: u32) -> Tracked {
    Tracked::Script(ScriptConfig {
        program: "/bin/test".into(),
        arguments: vec!["-e".to_owned(), path.display().to_string()],
        user: "nobody".to_owned(),
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(5),
        rise,
        fall,
    })
}

/// Waits until the VIP is told something else than before.
async fn told(tracks: &mut Tracks, wanted: impl Fn(&Told) -> bool) -> Told {
    let wait = async {
        loop {
            for event in tracks.changed().await {
                if wanted(&event.told) {
                    return event.told;
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .expect("it is told within 20 s")
}

fn cost(cost: u16) -> Sum {
    Sum {
        cost,
        critical: false,
    }
}

#[tokio::test]
async fn the_first_word_is_there_at_once_and_every_change_follows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ready");
    let wanted = of(&[
        ("ready", Tracked::File(file.clone()), Failure::Costs(20)),
        (
            "gone",
            Tracked::Interface("kedge-none".to_owned()),
            Failure::Costs(1),
        ),
        (
            "loop",
            Tracked::Interface("lo".to_owned()),
            Failure::Costs(0),
        ),
        (
            "proxy",
            Tracked::Process("kedge-no-process".to_owned()),
            Failure::Costs(2),
        ),
    ]);
    let mut tracks = Tracks::new(Store::new(dir.path()), "boot".to_owned());
    let first = tracks.apply(wanted.clone());
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].told.tracked, cost(23), "{first:?}");
    let failing = format!(
        "track gone: there is no interface kedge-none; track proxy: no process kedge-no-process \
         runs; track ready: {} is not there",
        file.display()
    );
    assert_eq!(first[0].told.failing, failing);
    assert!(tracks.apply(wanted).is_empty(), "nothing new");
    fs::write(&file, "").unwrap();
    let good = told(&mut tracks, |_| true).await;
    assert_eq!(good.tracked, cost(3));
    assert_eq!(
        good.because,
        format!("track ready: {} is there", file.display())
    );
    fs::remove_file(&file).unwrap();
    assert_eq!(told(&mut tracks, |_| true).await.tracked, cost(23));
    let shown = tracks.of(&name("api"));
    let ready = shown.iter().find(|track| track.name == "ready").unwrap();
    assert_eq!(
        (ready.good, ready.weight, ready.critical),
        (false, Some(-20), false)
    );
    assert!(tracks.apply(BTreeMap::new()).is_empty());
    assert!(tracks.of(&name("api")).is_empty());
}

#[tokio::test]
async fn a_process_that_ends_is_told_at_once_and_one_that_starts_soon() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(format!("kedge-{}", std::process::id()));
    fs::copy("/bin/sleep", &program).unwrap();
    let called = program.file_name().unwrap().to_str().unwrap().to_owned();
    let mut tracks = Tracks::new(Store::new(dir.path()), "boot".to_owned());
    let wanted = of(&[("proxy", Tracked::Process(called), Failure::Bars)]);
    let first = tracks.apply(wanted);
    assert!(first[0].told.tracked.critical);
    let mut child = std::process::Command::new(&program)
        .arg("60")
        .spawn()
        .unwrap();
    let up = told(&mut tracks, |told| !told.tracked.critical).await;
    assert!(
        up.because
            .contains(&format!("runs as process {}", child.id())),
        "{up:?}"
    );
    let start = std::time::Instant::now();
    child.kill().unwrap();
    let down = told(&mut tracks, |told| told.tracked.critical).await;
    println!("its end was told after {:?}", start.elapsed());
    assert!(
        down.failing.starts_with("track proxy: no process kedge-"),
        "{down:?}"
    );
    child.wait().unwrap();
}

#[tokio::test]
async fn a_script_counts_once_it_failed_in_a_row_and_is_remembered_within_its_boot() {
    let dir = tempfile::tempdir().unwrap();
    // Whoever the script runs as may look.
    let seen = tempfile::tempdir_in("/tmp").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(seen.path(), mode).unwrap();
    let file = seen.path().join("ready");
    let store = Store::new(dir.path());
    let wanted = of(&[("check", script(&file, 1, 2), Failure::Costs(50))]);
    let mut tracks = Tracks::new(store.clone(), "one".to_owned());
    let first = tracks.apply(wanted.clone());
    assert_eq!(first[0].told.tracked, cost(0), "well until it answered");
    let failing = told(&mut tracks, |told| told.tracked.cost > 0).await;
    assert_eq!(failing.failing, "track check: /bin/test ended with 1");
    tracks.finish().await;
    let mut again = Tracks::new(store.clone(), "one".to_owned());
    let first = again.apply(wanted.clone());
    assert_eq!(
        first[0].told.tracked,
        cost(50),
        "as it was before the restart"
    );
    fs::write(&file, "").unwrap();
    let good = told(&mut again, |told| told.tracked.cost == 0).await;
    assert_eq!(good.because, "track check: /bin/test ended with 0");
    fs::remove_file(&file).unwrap();
    told(&mut again, |told| told.tracked.cost > 0).await;
    again.finish().await;
    let mut rebooted = Tracks::new(store, "two".to_owned());
    assert_eq!(rebooted.apply(wanted)[0].told.tracked, cost(0));
}

#[tokio::test]
async fn a_session_fails_a_track_only_when_it_lost_its_peer() {
    use kedge_core::bfd::{Liveness, SessionState};
    use kedge_vip_speaker::bfd::{Level, Levels};

    let dir = tempfile::tempdir().unwrap();
    let level = |state, liveness| -> Levels {
        let because = "of this".to_owned();
        let level = Level {
            peer_leaves: false,
            state,
            liveness,
            because,
        };
        std::sync::Arc::new([(name("tor"), level)].into())
    };
    let peers = |last: u8| BTreeMap::from([(name("tor"), IpAddr::from([10, 0, 0, last]))]);
    let says = tokio::sync::watch::Sender::new(Levels::default());
    let store = Store::new(dir.path());
    let wanted = of(&[("router", Tracked::Bfd(name("tor")), Failure::Costs(20))]);
    let mut tracks = Tracks::new(store.clone(), "one".to_owned());
    tracks.follow(says.subscribe(), peers(1));
    let first = tracks.apply(wanted.clone());
    assert_eq!(first[0].told.tracked, cost(0), "nothing is known yet");
    says.send_replace(level(SessionState::Down, Liveness::Unknown));
    let told_of = told(&mut tracks, |_| true).await;
    assert_eq!(told_of.tracked, cost(0));
    assert_eq!(
        told_of.because,
        "track router: tor is Down, which is no failure: of this"
    );
    says.send_replace(level(SessionState::Up, Liveness::Alive));
    assert_eq!(told(&mut tracks, |_| true).await.tracked, cost(0));
    says.send_replace(level(SessionState::Down, Liveness::Lost));
    let lost = told(&mut tracks, |told| told.tracked.cost > 0).await;
    assert_eq!(lost.failing, "track router: tor is down: of this");
    tracks.finish().await;
    // It is remembered until it is up, for this peer and this boot.
    let says = tokio::sync::watch::Sender::new(Levels::default());
    let begin = |boot: &str, last| {
        let mut tracks = Tracks::new(store.clone(), boot.to_owned());
        tracks.follow(says.subscribe(), peers(last));
        let first = tracks.apply(wanted.clone());
        (tracks, first[0].told.tracked)
    };
    assert_eq!(begin("two", 1).1, cost(0));
    assert_eq!(begin("one", 2).1, cost(0));
    let (mut again, first) = begin("one", 1);
    assert_eq!(first, cost(20));
    says.send_replace(level(SessionState::Init, Liveness::Unknown));
    let still = told(&mut again, |_| true).await;
    assert_eq!(still.tracked, cost(20), "{still:?}");
    says.send_replace(level(SessionState::Up, Liveness::Alive));
    assert_eq!(told(&mut again, |_| true).await.tracked, cost(0));
    says.send_replace(level(SessionState::Down, Liveness::Unknown));
    assert_eq!(
        told(&mut again, |_| true).await.tracked,
        cost(0),
        "told to stop"
    );
}
