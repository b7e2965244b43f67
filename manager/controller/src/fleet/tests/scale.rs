//! What a fleet costs: bytes for each host, and objects planned in a second when nothing changes.

use std::time::{Duration, Instant};

use kedge_control::report::{AddressType, HostReport, ReportedAddress};

use super::*;

struct Cost {
    hosts: usize,
    packed: usize,
    first: Duration,
    again: Duration,
    objects: usize,
}

/// `spaces` tenants of 100 hosts and 10 clusters each, behind one gateway.
fn cost(spaces: usize) -> Cost {
    let mut world = World::default();
    world.gateway("kedge-system", (20_000, 40_000));
    for space in 0..spaces {
        let space = format!("site-{space:03}");
        world.site(&space);
        for host in 0..100 {
            let name = format!("edge-{host:03}");
            world.host(&space, &name);
            let live = world.live.hosts.get_mut(&Name::new(&space, &name));
            live.unwrap().report = Some(HostReport {
                version: "0.1.0".to_owned(),
                boot_id: format!("3f0c{host:04}-7a5c-4b1e-9d7c-0c9e6d3f7a11"),
                machine_id: format!("b2a94c{host:04}d5e89b6f1f0c3d7a42"),
                addresses: vec![ReportedAddress {
                    kind: AddressType::InternalIP,
                    address: format!("10.20.14.{}", host + 10),
                    interface: Some("eth0".to_owned()),
                    primary: true,
                    because: "default route".to_owned(),
                }],
                ..HostReport::default()
            });
        }
        for cluster in 0..10 {
            world.balancer(&space, &format!("c{cluster}"), "kedge-system");
        }
    }
    // Tunnel mode takes every host of a namespace: that is the widest a plan gets.
    let began = Instant::now();
    world.settle();
    let first = began.elapsed();
    let all = world.stock.take_all();
    let (objects, packed) = (all.len(), all.bytes());
    for space in world.stock.spaces() {
        world.fleet.touch(&space);
    }
    let began = Instant::now();
    world.settle();
    let again = began.elapsed();
    assert_eq!(
        world.stock.take_all().bytes(),
        packed,
        "nothing was written"
    );
    Cost {
        hosts: spaces * 100,
        packed,
        first,
        again,
        objects,
    }
}

#[test]
fn a_host_takes_less_than_two_kibibytes() {
    let Cost { hosts, packed, .. } = cost(1);
    assert!(packed < hosts * 2048, "{} bytes a host", packed / hosts);
}

#[test]
#[ignore = "a measurement, by hand: minutes in a debug build"]
fn ten_thousand_hosts() {
    let cost = cost(100);
    let rate = cost.objects as f64 / cost.again.as_secs_f64();
    println!(
        "{} hosts, {} objects: {:.1} MiB packed, first plans {:.1} s, no-op {:.1} s = {rate:.0} objects/s",
        cost.hosts,
        cost.objects,
        cost.packed as f64 / 1_048_576.0,
        cost.first.as_secs_f64(),
        cost.again.as_secs_f64(),
    );
}
