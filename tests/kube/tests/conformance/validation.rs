//! What our kinds' rules refuse is refused on both stores, with the same words.

use std::time::{Duration, Instant};

use kedge_crd::testing::{CASES, Case};
use kedge_tests_kube::bare::Bare;
use serde_json::{Value, json};

use crate::ground::Ground;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_refuse_the_same_documents_with_the_same_words() {
    let Some(bare) = Bare::start().await else {
        return;
    };
    let (directory, kubernetes) = (Ground::directory().await, Ground::kubernetes(bare).await);
    for ground in [&directory, &kubernetes] {
        ground.tenant("rules").await;
    }
    // What a case changes of the status a person does not write.
    let of_a_person = |case: &&Case| case.was().is_none_or(|was| was.get("status").is_none());
    let (mut differences, mut refused) = (Vec::new(), 0);
    for (number, case) in CASES.iter().filter(of_a_person).enumerate() {
        refused += usize::from(case.refused.is_some());
        let named = |mut document: Value| {
            document["metadata"]["name"] = json!(format!("case-{number}"));
            document
        };
        let space = if case.kind == "Tenant" { "" } else { "rules" };
        for ground in [&directory, &kubernetes] {
            if let Some(was) = case.was() {
                ground.write(space, named(was)).await;
                if let Err(said) = takes(ground, space, case, number).await {
                    differences.push(format!("{case:?}: {}: {said}", ground.name()));
                    continue;
                }
            }
            if let Err(said) = judges(ground, space, case, named(case.becomes()), number).await {
                differences.push(format!("{case:?}: {}: {said}", ground.name()));
            }
        }
        directory.forget(space, case.kind, &format!("case-{number}"));
    }
    println!("{refused} documents were refused");
    assert!(refused > 30);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    directory.end().await;
    kubernetes.end().await;
}

/// Waits until a document is in force.
async fn takes(ground: &Ground, space: &str, case: &Case, number: usize) -> Result<(), String> {
    let begun = Instant::now();
    while ground
        .read_any(space, case.kind, &format!("case-{number}"))
        .await
        .is_null()
    {
        if begun.elapsed() > LIMIT {
            return Err(format!("it is not taken: {}", ground.problems().await));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Writes a document, and sees that it is refused or accepted as the case says.
async fn judges(
    ground: &Ground,
    space: &str,
    case: &Case,
    document: Value,
    number: usize,
) -> Result<(), String> {
    // A person who writes to a server is told at once, and one who writes a file by the problems.
    let said = ground.try_write(space, document.clone()).await;
    let begun = Instant::now();
    loop {
        let told = match &said {
            Err(said) => said.clone(),
            Ok(()) => ground.problems_of(&format!("case-{number}")).await,
        };
        match case.refused {
            Some(words) if told.contains(words) => return Ok(()),
            None if told.is_empty() => {
                let now = ground
                    .read_any(space, case.kind, &format!("case-{number}"))
                    .await;
                if includes(&now["spec"], &document["spec"]) {
                    return Ok(());
                }
            }
            _ => {}
        }
        if begun.elapsed() > LIMIT {
            return Err(format!("it says `{told}`"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether everything of one value is in another, beside what a manager or a default adds.
fn includes(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| all.get(key).is_some_and(|has| includes(has, value))),
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| includes(all, part))
        }
        (all, part) => all == part,
    }
}

const LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
