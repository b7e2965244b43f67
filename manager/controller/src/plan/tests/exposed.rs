//! What hosts say their cluster offers, and what becomes of it.

use proptest::prelude::*;

use super::world::*;
use crate::cases;

fn names(world: &World) -> Vec<String> {
    let all = world.exposed().into_iter();
    all.map(|(name, host)| format!("{name} of {host}"))
        .collect()
}

#[test]
fn what_a_host_said_is_withdrawn_while_it_is_out_and_nothing_else_is() {
    for out in ["Suspended", "Banned"] {
        let mut world = demo();
        for host in ["edge-a", "edge-b"] {
            world.enrol(host);
        }
        world.expose("edge-a", "web");
        world.expose("edge-a", "db");
        world.expose("edge-b", "mail");
        world.expose("edge-gone", "old");
        world.settle();
        let all = [
            "db of edge-a",
            "mail of edge-b",
            "old of edge-gone",
            "web of edge-a",
        ];
        assert_eq!(names(&world), all);
        // Another took over and said one of them as well: that is its word.
        world.expose("edge-b", "web");
        world.access("edge-a", out);
        world.settle();
        let left = ["mail of edge-b", "old of edge-gone", "web of edge-b"];
        assert_eq!(names(&world), left, "{out}");
        // Nothing comes back by itself: it says its set again.
        world.access("edge-a", "Active");
        world.settle();
        assert_eq!(names(&world), left);
        world.expose("edge-a", "db");
        world.settle();
        assert_eq!(names(&world).len(), 4);
    }
}

#[test]
fn nothing_is_withdrawn_while_a_document_is_unreadable() {
    let mut world = demo();
    world.enrol("edge-a");
    world.expose("edge-a", "web");
    world.access("edge-a", "Banned");
    world.objects.incomplete = true;
    world.settle();
    assert_eq!(names(&world), ["web of edge-a"]);
    world.objects.incomplete = false;
    world.settle();
    assert_eq!(names(&world), [] as [String; 0]);
}

const HOSTS: [&str; 3] = ["edge-a", "edge-b", "edge-c"];
const ACCESS: [&str; 3] = ["Active", "Suspended", "Banned"];

/// Something that happens: a host says something, an admin says something of a host, or a document
/// becomes unreadable or readable.
#[derive(Clone, Debug)]
enum Event {
    Said(usize, usize),
    Access(usize, usize),
    Unreadable(bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..3_usize, 0..3_usize).prop_map(|(host, name)| Event::Said(host, name)),
        (0..3_usize, 0..3_usize).prop_map(|(host, access)| Event::Access(host, access)),
        any::<bool>().prop_map(Event::Unreadable),
    ];
    prop::collection::vec(event, 1..30)
}

proptest! {
    #![proptest_config(cases::usually(32))]

    #[test]
    fn only_what_hosts_said_that_are_served_stands(events in events(), kubernetes in any::<bool>()) {
        let mut world = if kubernetes { site().on_kubernetes() } else { site() };
        HOSTS.into_iter().for_each(|host| world.enrol(host));
        for event in &events {
            world.later(1);
            let before = world.exposed();
            match event {
                // Whoever is out is not heard.
                Event::Said(host, _) if !world.is_served(HOSTS[*host]) => {}
                Event::Said(host, name) => {
                    world.expose(HOSTS[*host], ["web", "db", "mail"][*name]);
                }
                Event::Access(host, access) => world.access(HOSTS[*host], ACCESS[*access]),
                Event::Unreadable(incomplete) => world.objects.incomplete = *incomplete,
            }
            // `settle` asserts the law.
            world.settle();
            let stands = world.exposed();
            for (name, host) in &stands {
                let stays = world.objects.incomplete || world.is_served(host);
                prop_assert!(stays, "{name} of {host}, which is out");
            }
            for (name, host) in before {
                let is_said = stands.iter().any(|(stands, _)| *stands == name);
                prop_assert!(is_said || !world.is_served(&host), "{name} of {host} is lost");
            }
        }
    }
}
