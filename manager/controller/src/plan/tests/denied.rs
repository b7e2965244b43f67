//! Keys of banned hosts.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_crd::{EdgeHostSpec, TenantSpec};
use serde_json::json;

use super::world::*;
use crate::{managers, pki, plan::denied::is_denied, snapshot::key, store::Name};

fn enrolled(world: &mut World) {
    world.enrol("edge-a");
    let host = key::<EdgeHostSpec>(&Name::new(NS, "edge-a"));
    let layers = world.objects.by_key.get_mut(&host).unwrap();
    let layer = layers.owned.get_mut(managers::ENROL).unwrap();
    layer["spec"]["tunnel"] = json!({"publicKeys": [STANDARD.encode([9; 32])]});
}

fn denied(world: &World) -> bool {
    let tenant = key::<TenantSpec>(&Name::new("", NS));
    is_denied(world.objects.get(&tenant).unwrap(), &[pki::hash(&[9; 32])])
}

#[test]
fn a_banned_key_stays_denied_until_its_host_is_active_again() {
    let mut world = demo();
    enrolled(&mut world);
    world.settle();
    assert!(!denied(&world));
    let ban = format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: edge-a, namespace: {NS}}}\nspec: {{access: Banned}}\n"
    );
    world.write(&ban);
    world.settle();
    assert!(denied(&world));
    // The record goes, the ban stays.
    world.remove("kedge.dev", "EdgeHost", "edge-a");
    let host = key::<EdgeHostSpec>(&Name::new(NS, "edge-a"));
    world.objects.by_key.remove(&host);
    world.settle();
    assert!(denied(&world));
    // Somebody's apply drops the list: it comes back from the copy.
    let tenant = key::<TenantSpec>(&Name::new("", NS));
    let layers = world.objects.by_key.get_mut(&tenant).unwrap();
    layers.owned.remove(managers::DENIED).unwrap();
    assert!(!denied(&world));
    world.settle();
    assert!(denied(&world));
    // A person takes it back.
    enrolled(&mut world);
    world.settle();
    assert!(!denied(&world));
}
