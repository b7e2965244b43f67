use serde_json::json;

use super::*;
use crate::store::UserDocument;

fn put(stock: &mut Stock, group: &str, kind: &str, name: Name, spec: serde_json::Value) {
    let value = json!({"metadata": {"name": name.name, "namespace": name.namespace}, "spec": spec});
    let user = Some(UserDocument {
        value,
        origin: String::new(),
    });
    let layers = Layers {
        user,
        ..Layers::default()
    };
    stock.put(&ObjectKey::new(group, kind, name), &layers);
}

fn changes(stock: &mut Stock) -> (Vec<String>, bool) {
    let Changes { spaces, all } = stock.changes();
    (spaces.into_iter().collect(), all)
}

#[test]
fn a_change_touches_the_namespace_it_belongs_to() {
    let mut stock = Stock::default();
    let host = |stock: &mut Stock, at: &str, tenant: &str| {
        let name = Name::new(at, "h");
        put(
            stock,
            meta::GROUP,
            "EdgeHost",
            name,
            json!({"tenant": tenant}),
        );
    };
    host(&mut stock, "a", "t");
    host(&mut stock, "b", "t");
    assert_eq!(changes(&mut stock), (vec!["a".into(), "b".into()], false));
    host(&mut stock, "b", "t");
    assert_eq!(changes(&mut stock), (vec![], false), "it says the same");
    host(&mut stock, "b", "other");
    assert_eq!(changes(&mut stock), (vec!["b".into()], false));

    let tenant = |stock: &mut Stock, namespace: &str| {
        let spec = json!({"namespace": namespace});
        put(stock, meta::GROUP, "Tenant", Name::new("", "t"), spec);
    };
    tenant(&mut stock, "a");
    assert_eq!(changes(&mut stock), (vec!["a".into()], false));
    tenant(&mut stock, "b");
    assert_eq!(changes(&mut stock), (vec!["a".into(), "b".into()], false));
    assert_eq!(stock.take("a").open().by_key.len(), 1);
    assert_eq!(stock.take("b").open().by_key.len(), 2);
    put(&mut stock, "x", "GlobalPool", Name::new("", "p"), json!({}));
    assert_eq!(changes(&mut stock), (vec![], true));
    assert_eq!(stock.take("a").open().by_key.len(), 2, "it belongs to all");
    assert_eq!(stock.take_all().len(), 4);

    let cluster = json!({"infrastructureRef": {"apiGroup": "x", "kind": "Infra", "name": "c"}});
    put(
        &mut stock,
        kedge_crd::capi::GROUP,
        "Cluster",
        Name::new("c", "c"),
        cluster,
    );
    assert_eq!(
        stock.referring().len(),
        4,
        "those of Tenants, and a Cluster's"
    );
    assert!(stock.referring().is_empty());
    let key = ObjectKey::new(meta::GROUP, "EdgeHost", Name::new("b", "h"));
    let known = changes(&mut stock);
    assert_eq!(known, (vec!["c".into()], false));
    stock.remove(&key);
    assert_eq!(changes(&mut stock), (vec!["b".into()], false));
    assert_eq!(stock.get(&key), None);
    let spaces: Vec<String> = stock.spaces().into_iter().collect();
    assert_eq!(spaces, ["a", "b", "c"]);
}
