//! `kubectl get` without `-o wide`: few columns, and each says something.

use http::Request;
use kedge_crd::kinds::KINDS;
use kube::Client;
use serde_json::{Value, json};

use crate::{fleet::Fleet, installed::installed};

#[tokio::test]
async fn what_kubectl_prints_is_narrow_and_says_what_matters() {
    let Some(_ours) = installed().await else {
        return;
    };
    let Some(fleet) = Fleet::of(&["cp-a"], json!({})).await else {
        return;
    };
    let (client, space) = (&fleet.site.client, &fleet.site.space);
    for kind in KINDS {
        let place = if kind.namespaced {
            format!(
                "/apis/kedge.dev/v1alpha1/namespaces/{space}/{}",
                kind.plural
            )
        } else {
            format!("/apis/kedge.dev/v1alpha1/{}", kind.plural)
        };
        let table = table(client, &place).await;
        let titles: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|column| column["priority"] == 0)
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        println!("{} {titles:?}", kind.plural);
        assert!(titles.len() <= 8, "{} {titles:?}", kind.kind);
        assert_eq!(titles.first(), Some(&"Name"));
        assert_eq!(titles.last(), Some(&"Age"), "{}", kind.kind);
    }
    let place = format!("/apis/kedge.dev/v1alpha1/namespaces/{space}");
    fleet
        .site
        .until("a served LoadBalancer is shown whole", async || {
            let row = row(
                &table(client, &format!("{place}/loadbalancers")).await,
                "edge",
            );
            println!("{row}");
            row == json!(["edge", "edge", "VIP", "10.20.14.10", 1, 1, "True"])
        })
        .await;
    fleet
        .site
        .until("a host is shown with its address", async || {
            let row = row(&table(client, &format!("{place}/edgehosts")).await, "cp-a");
            println!("{row}");
            row[2] == "10.20.14.31" && row[1] == *space
        })
        .await;
    fleet
        .site
        .until("a pool says how much of it is free", async || {
            let row = row(&table(client, &format!("{place}/vippools")).await, "lan");
            println!("{row}");
            row == json!(["lan", 20, 19, 1])
        })
        .await;
}

/// What the API server prints of a path.
async fn table(client: &Client, path: &str) -> Value {
    let request = Request::get(path)
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    client.request(request).await.unwrap()
}

/// The cells of an object, but for its age.
fn row(table: &Value, name: &str) -> Value {
    let rows = table["rows"].as_array().unwrap();
    let cells = rows.iter().map(|row| row["cells"].as_array().unwrap());
    let mut found = cells.filter(|cells| cells[0] == name);
    let cells = found.next().cloned().unwrap_or_default();
    let kept = cells.len().saturating_sub(1);
    json!(cells[..kept])
}
