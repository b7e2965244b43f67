use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use jiff::Timestamp;
use kedge_control::identity::Role;

use super::*;
use crate::{
    store::directory::Directory,
    token::{GRACE, Record},
};

#[tokio::test]
async fn an_expired_token_is_told_for_a_while_and_then_removed() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::from(Directory::open(root.path()).unwrap());
    let now: Timestamp = "2027-06-01T00:00:00Z".parse().unwrap();
    let clock = Clock::new(move || now.into());
    let authority = Arc::new(Authority::load_or_create(&store, &clock).await.unwrap());
    let second = jiff::SignedDuration::from_secs(1);
    let record = |expires| {
        let scope = ("ns", "t");
        let made = Record::create(Role::Host, scope, None, (expires, 1), &authority.pin());
        made.unwrap().1
    };
    let usable = record(now + second);
    let told = record(now - GRACE + second);
    let outdated = record(now - GRACE);
    let unreadable = Record {
        expires: "never".to_owned(),
        ..record(now)
    };
    let records = [&usable, &told, &outdated, &unreadable];
    let writes: Vec<_> = records.iter().map(|record| record.write()).collect();
    store.write(writes).await.unwrap();
    let secrets = || walk(&root.path().join("owned/core/Secret/ns"));
    assert_eq!(secrets(), 4);

    let life = Duration::from_secs(60);
    let world = World::start(store, authority, clock, ("kedge.local", life)).await;
    let state = world.state.try_lock().unwrap();
    let left = token::all(&state.store.objects());
    assert_eq!(left.len(), 3);
    assert!(!left.contains_key(&outdated.id));
    assert_eq!(left[&told.id].summary(now).state, "expired");
    assert_eq!(secrets(), 3, "on the disk as well");
    assert!(state.problems().is_empty());
}

#[tokio::test]
async fn a_plan_that_waits_leaves_connections_and_timers_alone() {
    // The clock stands for the disk: it is asked in the middle of a plan, and here it takes
    // its time. The runtime has one thread.
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let (gate, slow) = (
        std::sync::Mutex::new(gate),
        Arc::new(AtomicBool::new(false)),
    );
    let is_slow = Arc::clone(&slow);
    let clock = Clock::new(move || {
        if is_slow.swap(false, Ordering::SeqCst) {
            let waited = gate.lock().unwrap();
            entered.send(None).unwrap();
            let opened = waited.recv_timeout(Duration::from_secs(5)).is_ok();
            entered.send(Some(opened)).unwrap();
        }
        SystemTime::UNIX_EPOCH
    });
    let root = tempfile::tempdir().unwrap();
    let store = Store::from(Directory::open(root.path()).unwrap());
    let authority = Arc::new(Authority::load_or_create(&store, &clock).await.unwrap());
    let life = Duration::from_secs(60);
    let world = World::start(store, authority, clock, ("kedge.local", life)).await;
    let mut version = world.follow();
    let tenant = "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {name: t}\nspec: {}\n";
    std::fs::write(root.path().join("t.yaml"), tenant).unwrap();
    slow.store(true, Ordering::SeqCst);
    world.files_changed.notify_one();
    let planner = tokio::spawn(Arc::clone(&world).run(life));
    assert_eq!(inside.recv().await, Some(None));
    assert!(world.state.try_lock().is_ok(), "nobody waits for the plan");
    open.send(()).unwrap();
    assert_eq!(inside.recv().await, Some(Some(true)), "we ran meanwhile");
    version.changed().await.unwrap();
    planner.abort();
}

fn walk(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn what_was_left_to_another_is_planned_again_once_this_one_leads() {
    let root = tempfile::tempdir().unwrap();
    let mut state = State::new(Store::from(Directory::open(root.path()).unwrap()));
    assert!(!state.follows_now(true), "the first look");
    assert!(!state.follows_now(true));
    // The lease ran out and came back between two looks, and a plan was made meanwhile.
    state.followed();
    assert!(state.follows_now(true));
    assert!(!state.follows_now(true));
}
