use std::process::Command;

use super::*;
use crate::link::Links;

/// Namespaces need root. Says why and passes without it, unless CI requires the tier.
pub(crate) fn root() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|tier| tier == "netns"),
        "namespaces need root"
    );
    eprintln!("skipped: namespaces need root");
    false
}

#[test]
fn names_that_could_leave_the_directory_are_refused() {
    for name in ["", "../x", "a/b", "A", "a.b", &"a".repeat(65)] {
        assert!(
            matches!(Namespace::create(name), Err(NetnsError::Name(_))),
            "{name}"
        );
    }
}

#[test]
fn a_namespace_is_there_for_ip_netns_and_gone_after_drop() {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let name = lease.namespace("a");
    let outside = Identity::current().unwrap();
    {
        let namespace = Namespace::create(&name).unwrap();
        assert!(list().unwrap().contains(&name));
        let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains(&name));
        let inside = namespace.run(|| Identity::current().unwrap()).unwrap();
        assert_eq!(inside, namespace.identity());
        assert_ne!(inside, outside);
        assert_eq!(Identity::current().unwrap(), outside);
        assert!(matches!(
            Namespace::create(&name),
            Err(NetnsError::Create { .. })
        ));
    }
    assert!(!list().unwrap().contains(&name));
}

#[test]
fn processes_are_found_killed_and_die_with_their_worker() {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let namespace = Namespace::create(&lease.namespace("a")).unwrap();
    let sleep = || {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    };

    let worker = Worker::start(&namespace).unwrap();
    let mut child = worker.spawn(sleep()).unwrap().unwrap();
    let pid = Pid::from_child(&child);
    assert_eq!(namespace.processes(), [pid]);
    drop(worker);
    assert!(
        !child.wait().unwrap().success(),
        "the child outlived its worker"
    );

    let worker = Worker::start(&namespace).unwrap();
    let mut child = worker.spawn(sleep()).unwrap().unwrap();
    assert_eq!(namespace.signal(Signal::KILL).len(), 1);
    assert!(!child.wait().unwrap().success());
    assert!(namespace.processes().is_empty());
    namespace.kill_all().unwrap();
}

#[test]
fn a_worker_stays_inside_and_passes_panics_on() {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let namespace = Namespace::create(&lease.namespace("a")).unwrap();
    let worker = Worker::start(&namespace).unwrap();
    let names = worker
        .run(|| Links::open().unwrap().list().unwrap())
        .unwrap();
    assert_eq!(
        names
            .iter()
            .map(|link| link.name.as_str())
            .collect::<Vec<_>>(),
        ["lo"]
    );
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        worker.run(|| assert_eq!(1, 2, "on purpose"))
    }));
    assert!(panicked.is_err());
    assert_eq!(worker.run(|| 7).unwrap(), 7);
}

#[test]
fn only_what_a_dead_run_left_is_collected() {
    if !root() {
        return;
    }
    let alive = Lease::take().unwrap();
    let living = Namespace::create(&alive.namespace("a")).unwrap();

    // A run that was killed: its directory without a lock, a namespace, a process.
    let dead = Lease::take().unwrap();
    let id = dead.id().to_owned();
    let directory = dead.directory().to_owned();
    let mut left = Namespace::create(&dead.namespace("b")).unwrap();
    left.keep();
    let worker = Worker::start(&left).unwrap();
    let mut command = Command::new("sleep");
    command.arg("600");
    let mut child = worker.spawn(command).unwrap().unwrap();
    assert!(Lease::is_live(&id));
    assert!(live().unwrap().contains(&(id.clone(), directory.clone())));
    assert!(
        leftovers().unwrap().iter().all(|run| run.id != id),
        "a live run is no leftover"
    );
    drop(dead);
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("lock"), "").unwrap();

    let found = leftovers()
        .unwrap()
        .into_iter()
        .find(|run| run.id == id)
        .unwrap();
    assert_eq!(found.namespaces, [left.name()]);
    assert_eq!(found.processes.len(), 1);
    let collected = collect().unwrap();
    assert!(
        collected.namespaces >= 1 && collected.processes >= 1,
        "{collected:?}"
    );
    assert!(!child.wait().unwrap().success());
    assert!(!directory.exists());
    let names = list().unwrap();
    assert!(!names.iter().any(|name| name == left.name()));
    assert!(
        names.iter().any(|name| name == living.name()),
        "a live run was touched"
    );
    assert!(alive.directory().exists());
}
