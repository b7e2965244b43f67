//! Our own provider: who gets which address.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{NS, World, cluster, site, world};
use crate::{
    cases,
    plan::marks::ADDRESS,
    store::{ADDRESS_KIND, CLAIM_KIND, IPAM_GROUP, Name, ObjectKey},
};

fn desk(addresses: &str, more: &str) -> World {
    let mut world = world(&[]).on_kubernetes();
    world.write(&pool(addresses, more));
    world
}

fn pool(addresses: &str, more: &str) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: VIPPool\nmetadata: {{name: lan, namespace: {NS}}}\n\
         spec: {{addresses: [{addresses}], prefix: 24, gateway: 192.0.2.1{more}}}\n"
    )
}

/// Somebody makes a claim at that second.
fn claim(world: &mut World, name: &str) {
    world.write(&format!(
        "apiVersion: {IPAM_GROUP}/v1beta2\nkind: {CLAIM_KIND}\nmetadata: {{name: {name}, namespace: {NS}}}\n\
         spec: {{poolRef: {{apiGroup: kedge.dev, kind: VIPPool, name: lan}}}}\n"
    ));
    let created = world.now.clone();
    let layers = world
        .objects
        .by_key
        .get_mut(&key(CLAIM_KIND, name))
        .unwrap();
    layers.server.get_or_insert_default().created = created;
    world.core();
}

fn key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey::new(IPAM_GROUP, kind, Name::new(NS, name))
}

/// What an API server does once nobody holds what is being deleted.
fn collect(world: &mut World) {
    world.objects.by_key.retain(|_, layers| {
        let leaves = layers.server.as_ref().is_some_and(|it| it.is_deleted());
        !leaves || layers.marks.is_some()
    });
    world.core();
}

/// The address of every claim that has one, by the claim.
fn given(world: &World) -> BTreeMap<String, IpAddr> {
    let claims = world.objects.of_kind(IPAM_GROUP, CLAIM_KIND);
    let claims = claims.filter_map(|(claim, layers)| {
        let value = layers.effective();
        let name = value.pointer("/status/addressRef/name")?.as_str()?;
        let address = world.objects.get(&key(ADDRESS_KIND, name))?.effective();
        let address = address.pointer("/spec/address")?.as_str()?.parse().ok()?;
        Some((claim.name.name.clone(), address))
    });
    claims.collect()
}

/// The addresses that claims have on record.
fn recorded(world: &World) -> BTreeSet<IpAddr> {
    let claims = world.objects.of_kind(IPAM_GROUP, CLAIM_KIND);
    let records = claims.filter_map(|(_, layers)| {
        let value = layers.effective();
        let record = value["metadata"]["annotations"][ADDRESS].as_str()?;
        record.parse().ok()
    });
    records.collect()
}

fn ready(world: &World, name: &str) -> (String, Value) {
    let value = world
        .objects
        .get(&key(CLAIM_KIND, name))
        .unwrap()
        .effective();
    let new = &value["status"]["conditions"][0];
    let old = value["status"]["deprecated"]["v1beta1"]["conditions"][0].clone();
    let word = |field: &str| new[field].as_str().unwrap_or_default().to_owned();
    (
        format!("{}/{}: {}", word("status"), word("reason"), word("message")),
        old,
    )
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn what_was_given_stays_on_record_while_the_pool_cannot_be_read() {
    let mut world = desk("192.0.2.2-192.0.2.6", "");
    claim(&mut world, "m");
    world.settle();
    let had = given(&world)["m"];
    world.write(&pool("192.0.2.3", ", excludedAddresses: [192.0.2.3]"));
    world.objects.by_key.remove(&key(ADDRESS_KIND, "m"));
    world.core();
    world.settle();
    assert!(ready(&world, "m").0.starts_with("False/"), "not served");
    world.write(&pool("192.0.2.2-192.0.2.6", ""));
    world.later(1);
    claim(&mut world, "a");
    world.settle();
    assert_eq!(given(&world)["m"], had);
    assert_ne!(given(&world)["a"], had);
}

#[test]
fn who_waits_longest_is_served_first_and_is_told_why_it_waits() {
    let mut world = desk("192.0.2.9", "");
    claim(&mut world, "m");
    world.settle();
    assert_eq!(
        given(&world),
        BTreeMap::from([("m".into(), address("192.0.2.9"))])
    );
    for name in ["z", "a"] {
        world.later(1);
        claim(&mut world, name);
        world.settle();
        let (new, old) = ready(&world, name);
        assert_eq!(
            new,
            "False/PoolExhausted: the VIPPool has 0 of 1 addresses free"
        );
        assert_eq!(old["severity"], "Warning");
    }
    world.delete(IPAM_GROUP, CLAIM_KIND, "m");
    world.settle();
    assert!(given(&world).contains_key("m"), "not before it is let go");
    collect(&mut world);
    world.settle();
    assert_eq!(
        given(&world),
        BTreeMap::from([("z".into(), address("192.0.2.9"))])
    );
}

#[test]
fn an_address_that_goes_by_force_is_made_again_and_one_without_a_claim_goes() {
    let mut world = desk("192.0.2.2-192.0.2.9", "");
    for name in ["a", "b"] {
        claim(&mut world, name);
        world.settle();
    }
    world.delete(IPAM_GROUP, CLAIM_KIND, "a");
    world.settle();
    collect(&mut world);
    world.objects.by_key.remove(&key(ADDRESS_KIND, "b"));
    world.settle();
    let again = BTreeMap::from([("b".into(), address("192.0.2.3"))]);
    assert_eq!(given(&world), again, "the same, though a lower one is free");
    world.objects.by_key.remove(&key(CLAIM_KIND, "b"));
    world.settle();
    collect(&mut world);
    assert_eq!(world.objects.get(&key(ADDRESS_KIND, "b")), None);
}

#[test]
fn an_address_of_another_provider_is_never_touched_and_its_name_is_not_taken() {
    let mut world = desk("192.0.2.2-192.0.2.9", "");
    world.write(&format!(
        "apiVersion: {IPAM_GROUP}/v1beta2\nkind: {ADDRESS_KIND}\nmetadata: {{name: a, namespace: {NS}}}\n\
         spec: {{address: 192.0.2.2, prefix: 24, claimRef: {{name: a}}, \
         poolRef: {{apiGroup: {IPAM_GROUP}, kind: InClusterIPPool, name: lan}}}}\n"
    ));
    let before = world.objects.get(&key(ADDRESS_KIND, "a")).cloned().unwrap();
    claim(&mut world, "a");
    world.settle();
    assert!(ready(&world, "a").0.starts_with("False/AllocationFailed"));
    let after = world.objects.get(&key(ADDRESS_KIND, "a")).cloned().unwrap();
    assert_eq!(
        (after.user, after.owned, after.marks),
        (before.user, before.owned, before.marks)
    );
}

#[test]
fn a_users_vip_and_a_claim_never_have_one_address() {
    let mut world = site().on_kubernetes();
    world.write(&pool("192.0.2.9-192.0.2.10", ""));
    claim(&mut world, "a");
    world.settle();
    world.write(&cluster("c", "", ""));
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: c, namespace: {NS}}}\n\
         spec: {{clusterName: c, mode: VIP, vip: {{address: 192.0.2.9}}}}\n"
    ));
    world.core();
    world.settle();
    let said = world.condition("c", "EndpointPublished");
    assert!(
        said.contains("192.0.2.9 is already given to IPAddressClaim"),
        "{said}"
    );
    let with = |world: &mut World, address: &str| {
        let document = world.document("kedge.dev", "LoadBalancer", "c");
        document["spec"]["vip"]["address"] = json!(address);
        world.settle();
    };
    with(&mut world, "192.0.2.10");
    claim(&mut world, "b");
    world.settle();
    assert!(ready(&world, "b").0.starts_with("False/PoolExhausted"));
}

#[test]
fn both_families_are_claimed_and_only_ipv4_goes_to_the_hosts() {
    let mut world = site().on_kubernetes();
    world.enrol("edge-a");
    world.write(&pool("192.0.2.9", ""));
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: VIPPool\nmetadata: {{name: six, namespace: {NS}}}\n\
         spec: {{addresses: ['fd00::/64'], prefix: 64}}\n"
    ));
    world.write(&cluster("c", "", ""));
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: c, namespace: {NS}}}\n\
         spec: {{clusterName: c, mode: VIP, targetKind: {{apiGroup: kedge.dev, kind: EdgeHost}}, \
         selector: {{matchLabels: {{kedge.dev/site: {NS}}}}}, \
         vip: {{poolRef: {{name: lan}}, second: {{poolRef: {{name: six}}}}}}}}\n"
    ));
    world.core();
    world.settle();
    world.core();
    let plan = world.settle();
    let host = &plan.hosts[&Name::new(NS, "edge-a")];
    assert_eq!(host.vips[0].addresses, [address("192.0.2.9")]);
    let (spec, status) = world.balancer("c");
    let second = spec.vip.unwrap().second.unwrap();
    assert_eq!(second.address, Some(address("fd00::1")));
    let told = status.vip.unwrap();
    assert_eq!(
        (told.claim_ref.as_str(), told.prefix),
        ("c-vip-ipv4", Some(24))
    );
    let second = told.second.unwrap();
    assert_eq!(
        (second.claim_ref.as_str(), second.prefix),
        ("c-vip-ipv6", Some(64))
    );
    assert!(
        world
            .condition("c", "DualStack")
            .starts_with("False: FamilyUnsupported")
    );
    let both = ["c-vip-ipv4", "c-vip-ipv6"].map(|name| given(&world)[name]);
    assert_eq!(both, [address("192.0.2.9"), address("fd00::1")]);
    // The endpoint itself cannot be of the family that no host speaks.
    let document = world.document("kedge.dev", "LoadBalancer", "c");
    document["spec"]["vip"] = json!({"poolRef": {"name": "six"}});
    document["metadata"]["name"] = json!("c");
    let balancer = ObjectKey::new("kedge.dev", "LoadBalancer", Name::new(NS, "c"));
    world
        .objects
        .by_key
        .get_mut(&balancer)
        .unwrap()
        .owned
        .clear();
    let infra = ObjectKey::new(INFRA, "ElementalCluster", Name::new(NS, "c"));
    world.objects.by_key.get_mut(&infra).unwrap().owned.clear();
    let document = world.document("cluster.x-k8s.io", "Cluster", "c");
    document["spec"]
        .as_object_mut()
        .unwrap()
        .remove("controlPlaneEndpoint");
    world.settle();
    let said = world.condition("c", "EndpointPublished");
    assert!(
        said.starts_with("False: Forbidden: VIPPool six is IPv6"),
        "{said}"
    );
}

/// Something that happens to a pool.
#[derive(Clone, Debug)]
enum Event {
    Claim(u8),
    Delete(u8),
    DeleteAddress(u8),
    StripAddress(u8),
    LoseStatus(u8),
    Range(u8, u8),
    Exclude(u8),
    Pause(u8, bool),
    Collect,
    Later(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0_u8..8).prop_map(Event::Claim),
        2 => (0_u8..8).prop_map(Event::Delete),
        1 => (0_u8..8).prop_map(Event::DeleteAddress),
        1 => (0_u8..8).prop_map(Event::StripAddress),
        1 => (0_u8..8).prop_map(Event::LoseStatus),
        1 => (2_u8..8, 0_u8..6).prop_map(|(from, more)| Event::Range(from, from + more)),
        1 => (2_u8..12).prop_map(Event::Exclude),
        1 => (0_u8..8, any::<bool>()).prop_map(|(claim, rests)| Event::Pause(claim, rests)),
        3 => Just(Event::Collect),
        2 => (1_u8..20).prop_map(Event::Later),
    ];
    prop::collection::vec(event, 1..40)
}

fn happen(world: &mut World, event: &Event, range: &mut (String, String)) {
    let name = |number: &u8| format!("claim-{number}");
    let known = |world: &World, kind: &str, number: &u8| {
        world.objects.get(&key(kind, &name(number))).is_some()
    };
    match event {
        Event::Claim(number) if !known(world, CLAIM_KIND, number) => claim(world, &name(number)),
        Event::Delete(number) if known(world, CLAIM_KIND, number) => {
            let layers = world.objects.get(&key(CLAIM_KIND, &name(number))).unwrap();
            if !layers.server.as_ref().is_some_and(|it| it.is_deleted()) {
                world.delete(IPAM_GROUP, CLAIM_KIND, &name(number));
            }
        }
        Event::DeleteAddress(number) if known(world, ADDRESS_KIND, number) => {
            world.delete(IPAM_GROUP, ADDRESS_KIND, &name(number));
        }
        Event::StripAddress(number) => {
            world
                .objects
                .by_key
                .remove(&key(ADDRESS_KIND, &name(number)));
        }
        Event::LoseStatus(number) => {
            let layers = world
                .objects
                .by_key
                .get_mut(&key(CLAIM_KIND, &name(number)));
            if let Some(layers) = layers {
                layers.status = None;
            }
        }
        Event::Range(from, to) => range.0 = format!("192.0.2.{from}-192.0.2.{to}"),
        Event::Exclude(last) => range.1 = format!(", excludedAddresses: [192.0.2.{last}]"),
        Event::Pause(number, rests) if known(world, CLAIM_KIND, number) => {
            let document = world.document(IPAM_GROUP, CLAIM_KIND, &name(number));
            document["metadata"]["annotations"] = match rests {
                true => json!({"cluster.x-k8s.io/paused": ""}),
                false => json!({}),
            };
        }
        Event::Collect => collect(world),
        Event::Later(seconds) => world.later(i64::from(*seconds)),
        Event::Claim(_) | Event::Delete(_) | Event::DeleteAddress(_) | Event::Pause(..) => {}
    }
}

proptest! {
    #![proptest_config(cases::usually(48))]

    #[test]
    fn an_address_never_belongs_to_two_and_the_lowest_is_given_after_its_rest(events in events()) {
        let grace = ", addressReuseGracePeriodSeconds: 10";
        let mut range = ("192.0.2.2-192.0.2.6".to_owned(), String::new());
        let mut world = desk(&range.0, grace);
        let mut before = BTreeMap::new();
        // When each address was last let go, by the deletion of its claim.
        let mut left: BTreeMap<IpAddr, jiff::Timestamp> = BTreeMap::new();
        for event in &events {
            world.later(1);
            happen(&mut world, event, &mut range);
            world.write(&pool(&range.0, &format!("{}{grace}", range.1)));
            world.core();
            // `settle` asserts the law.
            world.settle();
            let there: Vec<IpAddr> = world
                .objects
                .of_kind(IPAM_GROUP, ADDRESS_KIND)
                .map(|(_, layers)| layers.effective()["spec"]["address"].as_str().unwrap().parse().unwrap())
                .collect();
            let each: BTreeSet<IpAddr> = there.iter().copied().collect();
            prop_assert_eq!(there.len(), each.len(), "{:?}", there);
            let now = given(&world);
            let holders: BTreeSet<&IpAddr> = now.values().collect();
            prop_assert_eq!(holders.len(), now.len(), "{:?}", now);
            let moment: jiff::Timestamp = world.now.parse().unwrap();
            let read = crate::ipam::Pool::parse(&world.snapshot().pools[&Name::new(NS, "lan")].spec);
            for (name, address) in &now {
                match before.get(name) {
                    Some(last) => prop_assert_eq!(last, address, "{} moved", name),
                    None => {
                        if let Some(since) = left.get(address) {
                            let rested = moment.duration_since(*since).as_secs();
                            prop_assert!(rested >= 10, "{} rested {} s", address, rested);
                        }
                    }
                }
            }
            // Of those that are new the lowest were taken: none below the highest of them is free.
            // An address that was taken away under its claim is still that claim's.
            let kept = recorded(&world);
            let fresh = now.iter().filter(|(name, _)| !before.contains_key(*name));
            if let (Ok(pool), Some(highest)) = (read, fresh.map(|(_, address)| *address).max()) {
                let free = pool.lowest_free(|address| each.contains(&address) || kept.contains(&address));
                prop_assert!(free.is_none_or(|free| free > highest), "{:?} < {}", free, highest);
            }
            for (key, layers) in world.objects.of_kind(IPAM_GROUP, CLAIM_KIND) {
                let since = layers.server.as_ref().and_then(|it| it.deletion_timestamp.clone());
                if let (Some(since), Some(address)) = (since, now.get(&key.name.name)) {
                    left.insert(*address, since.parse().unwrap());
                }
            }
            before.extend(now);
            before.retain(|name, _| world.objects.get(&key(CLAIM_KIND, name)).is_some());
        }
    }
}

const INFRA: &str = "infrastructure.cluster.x-k8s.io";
