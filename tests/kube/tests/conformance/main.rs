//! One suite for both stores: the same documents, the same hosts, the same outcome. What may
//! differ is said in one place, [`ground::Ground::differs`], and in the guide.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod ground;
mod scenarios;
mod validation;

use std::{collections::BTreeMap, time::Duration};

use kedge_tests_kube::bare::Bare;
use serde_json::Value;

use ground::Ground;
use scenarios::{SCENARIOS, Scenario};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_come_to_the_same_end() {
    let Some(bare) = Bare::start().await else {
        return;
    };
    let grounds = [Ground::directory().await, Ground::kubernetes(bare).await];
    let mut differences = Vec::new();
    for (number, scenario) in SCENARIOS.iter().enumerate() {
        let space = format!("s{number}");
        for ground in &grounds {
            let outcome = play(ground, scenario, &space).await;
            if let Err(said) = outcome {
                differences.push(format!("{}: {}: {said}", scenario.name, ground.name()));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    for ground in grounds {
        ground.end().await;
    }
}

/// Plays a scenario and waits for its outcome; what there is instead, when it does not come.
async fn play(ground: &Ground, scenario: &Scenario, space: &str) -> Result<(), String> {
    ground.tenant(space).await;
    let mut hosts = Vec::new();
    for step in scenario.steps {
        for document in (step.documents)() {
            ground.write(space, document).await;
        }
        for (name, key) in step.removed {
            ground.remove(space, *key, name).await;
        }
        for (name, address) in step.hosts {
            hosts.push(ground.host(space, name, address).await);
        }
        let mut expected = BTreeMap::new();
        for (what, wanted) in step.outcome {
            expected.insert((*what).to_owned(), (*wanted).to_owned());
        }
        let begun = std::time::Instant::now();
        loop {
            let found = ground.outcome(space, &expected, &hosts).await;
            if found == expected {
                break;
            }
            if begun.elapsed() > LIMIT {
                let about = ground.about(space).await;
                return Err(format!("wanted {expected:#?}, found {found:#?}\n{about}"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    println!("{} on {}", scenario.name, ground.name());
    Ok(())
}

/// A value at a path, as text.
fn text_at(document: &Value, pointer: &str) -> String {
    match document.pointer(pointer) {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

const LIMIT: Duration = Duration::from_secs(60);
