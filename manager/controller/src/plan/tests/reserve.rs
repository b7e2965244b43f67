//! Which address of which host becomes an endpoint.

use kedge_control::report::ReportedAddress;
use kedge_crd::EdgeHostSpec;
use serde_json::json;

use super::world::*;
use crate::{
    snapshot::key,
    store::{Layer, Name},
};

const USELESS: [&str; 8] = [
    "0.0.0.0",
    "127.0.0.1",
    "169.254.7.7",
    "224.0.0.18",
    "::1",
    "::ffff:169.254.7.7",
    "fe80::a",
    "ff02::12",
];

fn says(world: &mut World, name: &str, address: &str) {
    world.report(name, |report| report.addresses[0].address = address.into());
}

/// The condition of a host's addresses, as `status: reason: message`.
fn addresses_of(world: &World, name: &str) -> String {
    let key = key::<EdgeHostSpec>(&Name::new(NS, name));
    let status = world.objects.content(&key, &Layer::Status).unwrap();
    let conditions = status["status"]["conditions"].as_array().unwrap();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == "AddressesReported");
    let part = |name: &str| found.unwrap()[name].as_str().unwrap().to_owned();
    [part("status"), part("reason"), part("message")].join(": ")
}

#[test]
fn an_address_that_nobody_else_reaches_becomes_no_endpoint() {
    for useless in USELESS {
        let mut world = demo();
        world.enrol("edge-a");
        says(&mut world, "edge-a", useless);
        world.settle();
        assert_eq!(world.endpoints("edge-host").0, None, "{useless}");
        let condition = world.condition("edge-host", "EndpointPublished");
        let start = "False: WaitingForHost: edge-a reports ";
        assert!(condition.starts_with(start), "{useless}: {condition}");
        assert!(condition.contains("makes no endpoint"), "{condition}");
        let reported = addresses_of(&world, "edge-a");
        assert!(
            reported.starts_with("False: NoUsableAddress"),
            "{useless}: {reported}"
        );
        // Nothing was reserved for it: the host may still bring a better one.
        says(&mut world, "edge-a", "10.20.14.11");
        world.settle();
        let endpoint = Some(json!({"host": "10.20.14.11", "port": 6443}));
        assert_eq!(world.endpoints("edge-host").0, endpoint);
        assert!(addresses_of(&world, "edge-a").starts_with("True: Reported: 10.20.14.11"));
    }
}

#[test]
fn a_better_address_and_a_better_host_are_taken_instead() {
    let mut world = demo();
    world.enrol("edge-a");
    world.enrol("edge-b");
    says(&mut world, "edge-a", "fe80::a");
    says(&mut world, "edge-b", "169.254.0.2");
    world.report("edge-b", |report| {
        report.addresses.push(ReportedAddress {
            address: "10.20.14.12".to_owned(),
            primary: false,
            ..report.addresses[0].clone()
        });
    });
    world.settle();
    let endpoint = Some(json!({"host": "10.20.14.12", "port": 6443}));
    assert_eq!(world.endpoints("edge-host").0, endpoint);
    assert!(addresses_of(&world, "edge-b").starts_with("True: Reported: 10.20.14.12"));
}

#[test]
fn a_host_that_a_user_reserved_is_refused_for_its_address_alike() {
    let mut world = demo();
    world.enrol("edge-a");
    says(&mut world, "edge-a", "fe80::a");
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: edge-host, namespace: {NS}}}\n\
         spec: {{clusterName: edge-host, mode: HostAddress, hostAddress: {{host: edge-a}}}}\n"
    ));
    world.settle();
    assert_eq!(world.endpoints("edge-host").0, None);
    let condition = world.condition("edge-host", "EndpointPublished");
    assert!(
        condition.contains("edge-a reports fe80::a, a link-local address"),
        "{condition}"
    );
}

#[test]
fn a_host_is_selected_by_its_name_as_by_a_label_whatever_its_label_says() {
    let mut world = demo();
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.enrol(host);
    }
    let lies = key::<EdgeHostSpec>(&Name::new(NS, "edge-a"));
    let layers = world.objects.by_key.get_mut(&lies).unwrap();
    let owned = layers.owned.get_mut(crate::managers::ENROL).unwrap();
    owned["metadata"]["labels"]["kedge.dev/host"] = json!("edge-b");
    let selector = json!({"matchExpressions": [
        {"key": "kedge.dev/host", "operator": "In", "values": ["edge-b", "edge-d"]},
    ]});
    world.document("kedge.dev", "LoadBalancer", "edge-host")["spec"]["selector"] = selector;
    world.settle();
    assert_eq!(
        world.endpoints("edge-host").0,
        Some(json!({"host": "10.20.14.12", "port": 6443}))
    );
    let (_, status) = world.balancer("edge-host");
    let targets: Vec<_> = status.targets.iter().map(|target| &target.name).collect();
    assert_eq!(targets, ["edge-b"]);
}
