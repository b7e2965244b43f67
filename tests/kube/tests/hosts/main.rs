//! Hosts on a real API server, with the real client: whichever of two managers they ask, whatever
//! key they prove themselves with.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod access;
mod exposures;
mod fleet;
mod hangups;
mod host;
mod inventory;
mod sites;
mod tokens;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use fleet::{Fleet, LIMIT, NS};
use futures_util::future::join_all;
use host::{Host, elemental_host};
use kedge_control::{agent::HostConfig, token::Token};
use kedge_core::{Code, Coded as _};
use kedge_host::enrol::ClientError;
use kedge_manager_controller::{Manager, managers};
use kedge_tests_kube::{eventually, stays};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_any_manager_stay_served_when_the_leader_goes() {
    let Some(fleet) = Fleet::start().await else {
        return;
    };
    let one = fleet.impatient_manager("one").await;
    fleet.leads(&one).await;
    let two = fleet.impatient_manager("two").await;
    fleet.knows_the_leader(&two).await;

    // All of them ask the one that does not lead.
    let token = fleet.token(&one, 8).await;
    let hosts: Vec<Host> = join_all((0..5).map(async |number| {
        let host = Host::with_token(&two, &format!("edge-{number}"), &token);
        host.client.ensure().await.unwrap();
        host.report("10.20.14.11").await.unwrap();
        host
    }))
    .await;
    assert_eq!(
        one.world.state().await.members().len(),
        5,
        "the leader knows them"
    );
    let before = fleet.identities().await;
    assert_eq!(before.len(), 5);
    // Questions that wait at the leader, through the other.
    let mut links: Vec<_> = hosts.iter().map(Host::link).collect();
    for link in &mut links {
        let told = link.desired().wait_for(Option::is_some).await.map(drop);
        told.unwrap();
    }
    let token_before = fleet.uses(&token).await;
    assert_eq!(token_before, 5);

    // Another authority, and only one of them has been told.
    let was = two.world.authority.pin();
    let done = rotated(&fleet, &one, &two);
    assert_eq!(done["from"], json!(was), "{done}");
    for host in &hosts {
        host.report("10.20.14.11").await.unwrap();
    }
    eventually("the other hears of it", LIMIT, async || {
        json!(two.world.authority.pin()) == done["to"]
    })
    .await;
    let both = two.world.authority.bundle();
    let desired: Vec<_> = links.iter().map(kedge_host::link::Link::desired).collect();
    eventually("every host is told", LIMIT, async || {
        desired.iter().all(|desired| {
            let told = desired.borrow().clone();
            told.is_some_and(|told| told.ca_bundle == both)
        })
    })
    .await;

    // It dies without a word: its lease has to run out.
    drop(one);
    fleet.leads(&two).await;
    for (number, host) in hosts.iter().enumerate() {
        eventually(&format!("host {number} is served"), LIMIT, async || {
            host.report("10.20.14.12").await.is_ok()
        })
        .await;
    }
    eventually("every link is up again", LIMIT, async || {
        links.iter().all(|link| link.standing().borrow().connected)
    })
    .await;
    assert_eq!(fleet.identities().await, before, "nobody enrolled twice");
    assert_eq!(fleet.uses(&token).await, 5);
    // Its answer was lost with the leader: the same key gets the same identity.
    let newcomer = Host::with_token(&two, "edge-5", &token);
    eventually("a newcomer is let in", LIMIT, async || {
        newcomer.client.ensure().await.is_ok()
    })
    .await;
    assert_eq!(fleet.uses(&token).await, 6);

    // A third comes, and the one that leads now leaves in order: no lease has to run out.
    let three = fleet.manager("three").await;
    fleet.knows_the_leader(&three).await;
    let guest = Host::with_token(&three, "edge-6", &token);
    guest.client.ensure().await.unwrap();
    two.stop().await;
    fleet.leads(&three).await;
    eventually("the guest is served by the third", LIMIT, async || {
        guest.report("10.20.14.13").await.is_ok()
    })
    .await;
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_one_admits_one_and_idle_hosts_cause_no_writes() {
    let Some(fleet) = Fleet::start().await else {
        return;
    };
    let one = fleet.manager("one").await;
    fleet.leads(&one).await;
    let two = fleet.manager("two").await;
    fleet.knows_the_leader(&two).await;
    for trial in 0..4 {
        let token = fleet.token(&one, 1).await;
        let winners = admitted([&one, &two], &format!("racer-{trial}"), 12, &token).await;
        assert_eq!((winners, fleet.uses(&token).await), (1, 1));
    }
    // A hundred for a token of five, made a moment ago by the one that does not lead.
    let wanted = json!({"role": "Host", "tenant": "t", "maxUses": 5});
    let token = fleet.console(&two).token(wanted).await;
    let won = admitted([&one, &two], "crowd", 100, &token).await;
    assert_eq!((won, fleet.uses(&token).await), (5, 5));
    let records = fleet.identities().await;
    assert_eq!(records.len(), 9, "nobody else left a record: {records:?}");

    // A host that says the same again and again is not written down again.
    let token = fleet.token(&one, 1).await;
    let host = Host::with_token(&two, "quiet", &token);
    host.client.ensure().await.unwrap();
    eventually("all is applied", LIMIT, async || {
        let config = host.client.config::<HostConfig>(None, Duration::ZERO).await;
        let generation = config.unwrap().unwrap().generation;
        host.reports("10.20.14.20", generation).await.unwrap();
        let object = fleet.host("quiet").await;
        object["status"]["agent"]["configGeneration"] == generation
            && object["status"]["conditions"]
                .as_array()
                .is_some_and(|all| {
                    all.iter()
                        .any(|one| one["type"] == "AgentAlive" && one["status"] == "True")
                })
    })
    .await;
    let version = async || fleet.host("quiet").await["metadata"]["resourceVersion"].clone();
    let settled = version().await;
    let generation = host.client.config::<HostConfig>(None, Duration::ZERO).await;
    let generation = generation.unwrap().unwrap().generation;
    stays("no write", Duration::from_secs(2), async || {
        host.reports("10.20.14.20", generation).await.unwrap();
        version().await == settled
    })
    .await;

    // Suspended: refused by whichever manager is asked, and back without enrolment.
    fleet
        .patch_host("quiet", json!({"spec": {"access": "Suspended"}}))
        .await;
    eventually("it is refused", LIMIT, async || {
        let said = host.report("10.20.14.20").await;
        matches!(said, Err(ClientError::Refused { status: 403, .. }))
    })
    .await;
    fleet
        .patch_host("quiet", json!({"spec": {"access": "Active"}}))
        .await;
    eventually("it is back", LIMIT, async || {
        host.report("10.20.14.20").await.is_ok()
    })
    .await;
    // Evicted while it reports with another key: its record does not come back by that.
    fleet.delete_host("quiet").await;
    eventually("it is unknown", LIMIT, async || {
        let said = host.rotates("10.20.14.20").await;
        said.is_err_and(|error| error.voids_identity())
    })
    .await;
    assert!(
        !fleet
            .identities()
            .await
            .iter()
            .any(|(name, _)| name == "quiet")
    );
    tokens::are_good_at_once(&fleet, &one, &two).await;
    hangups::are_let_in_when_they_come_again(&fleet, &one).await;
    tokens::are_heard_of_in_every_tenant(&fleet, &one, &two).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_elemental_key_and_a_persons_word_let_hosts_in() {
    let Some(fleet) = Fleet::start().await else {
        return;
    };
    let manager = fleet.manager("one").await;
    fleet.leads(&manager).await;
    let host = Host::with_elemental_key(&manager, "elem-a", NS);
    let code = async || {
        host.client
            .ensure()
            .await
            .map_err(|error| error.problem().code)
    };
    assert_eq!(
        code().await,
        Err(Code::EnrolProofRefused),
        "no such ElementalHost"
    );
    let record = elemental_host("elem-a", &host.elemental, false);
    fleet.apply("elemental", record).await;
    eventually("nobody registered it", LIMIT, async || {
        code().await == Err(Code::EnrolTokenScope)
    })
    .await;
    fleet
        .apply("elemental", elemental_host("elem-a", &host.elemental, true))
        .await;
    fleet.tenant(json!({"namespace": NS})).await;
    eventually("its tenant does not take such keys", LIMIT, async || {
        code().await == Err(Code::EnrolTokenScope)
    })
    .await;
    fleet
        .tenant(json!({"namespace": NS, "enrollment": {"allowElementalKeys": true}}))
        .await;
    eventually("it is enrolled", LIMIT, async || code().await == Ok(())).await;
    let object = fleet.host("elem-a").await;
    assert_eq!(object["spec"]["hostRef"]["name"], "elem-a");
    assert_eq!(object["spec"]["tenant"], "t");
    // Somebody with another key says it is that host.
    let thief = Host::with_elemental_key(&manager, "elem-a", NS);
    let refused = thief.client.ensure().await.unwrap_err().problem().code;
    assert_eq!(refused, Code::EnrolProofRefused);
    // The same Elemental key with another identity: two machines, or one that lost its state.
    let again = host.with_another_identity(&manager, "elem-a");
    let refused = again.client.ensure().await.unwrap_err().problem().code;
    assert_eq!(refused, Code::EnrolNameTaken);
    // Reset and registered anew: Elemental made its record again, with another key.
    let uid = fleet.host("elem-a").await["spec"]["identity"]["uid"].clone();
    let reborn = Host::with_elemental_key(&manager, "elem-a", NS);
    fleet.delete_elemental("elem-a").await;
    fleet
        .apply(
            "elemental",
            elemental_host("elem-a", &reborn.elemental, true),
        )
        .await;
    eventually("it is let in again", LIMIT, async || {
        reborn.client.ensure().await.is_ok()
    })
    .await;
    let identity = fleet.host("elem-a").await["spec"]["identity"].clone();
    assert_eq!(
        (&identity["uid"], &identity["generation"]),
        (&uid, &json!(2))
    );
    let old = host.report("10.20.14.30").await;
    assert!(
        old.is_err(),
        "the key of before the reset is worth nothing: {old:?}"
    );
    reborn.report("10.20.14.30").await.unwrap();

    // A person's word: for a key, not for a name.
    fleet
        .tenant(json!({"namespace": NS, "enrollment": {"approval": "Manual"}}))
        .await;
    let token = fleet.token(&manager, 2).await;
    let waits = Host::with_token(&manager, "manual", &token);
    let mut key = String::new();
    eventually("it waits", LIMIT, async || {
        matches!(
            waits.client.ensure().await,
            Err(ClientError::Waiting { .. })
        )
    })
    .await;
    if let Err(ClientError::Waiting { key_hash }) = waits.client.ensure().await {
        key = key_hash;
    }
    assert_eq!(fleet.uses(&token).await, 1, "asking again counts once");
    let object = fleet.host("manual").await;
    assert_eq!(object["spec"]["request"]["keyHash"], key);
    assert!(object["spec"].get("identity").is_none());
    let squatter = Host::with_token(&manager, "manual", &token);
    let refused = squatter.client.ensure().await.unwrap_err().problem().code;
    assert_eq!(refused, Code::EnrolNameTaken);
    let elsewhere = json!({"namespace": NS, "name": "manual/status"});
    let console = fleet.console(&manager);
    let (status, said) = console.ask("/v1/fleet/approvals", elsewhere).await;
    assert_eq!(status, 404, "no object is called that: {said}");
    // The word is the leader's to take; another says who that is.
    let other = fleet.manager("two").await;
    fleet.knows_the_leader(&other).await;
    let word = json!({"name": "manual", "keyHash": key});
    let console = fleet.console(&other);
    let ask = async || console.ask("/v1/fleet/approvals", word.clone()).await;
    eventually("the other knows who waits", LIMIT, async || {
        ask().await.0 != 404
    })
    .await;
    let said = ask().await;
    assert_eq!(
        (said.0, &said.1["code"]),
        (503, &json!("KEDGE-API-0008")),
        "{}",
        said.1
    );
    let told = said.1.to_string();
    assert!(told.contains("kubectl -n kedge-system exec"), "{told}");
    assert!(
        told.contains(&format!("approve {NS}/manual --key {key}")),
        "{told}"
    );
    let (status, said) = fleet
        .console(&manager)
        .ask("/v1/fleet/approvals", word)
        .await;
    assert_eq!((status, &said["approved"]), (200, &json!(true)), "{said}");
    let owners = fleet.host("manual").await["metadata"]["managedFields"].to_string();
    assert!(owners.contains("kedge-approve"), "{owners}");
    eventually("it is let in", LIMIT, async || {
        waits.client.ensure().await.is_ok()
    })
    .await;
    assert_eq!(fleet.uses(&token).await, 1);
    let names: BTreeSet<String> = fleet
        .identities()
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        BTreeSet::from(["elem-a".to_owned(), "manual".to_owned()])
    );
    inventory::is_only_added_to(&fleet, &manager).await;
    other.stop().await;
    manager.stop().await;
}

/// `kedge fleet rotate-ca` beside each of two managers: what the program does to the authority.
fn rotated(fleet: &Fleet, leader: &Manager, other: &Manager) -> Value {
    let overlap = ["fleet", "rotate-ca", "--overlap", "1d"];
    let with = |more: &[&'static str]| [&overlap[..], more].concat();
    let console = fleet.console(leader);
    let was = leader.world.authority.pin();
    let (code, _, told) = console.kedge(&with(&[]));
    assert_eq!(code, 2, "nobody is there to be asked: {told}");
    assert!(told.contains("--yes"), "{told}");
    let (code, said, told) = console.kedge(&with(&["--dry-run", "-o", "json"]));
    assert_eq!(code, 0, "{told}");
    let tried: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(tried["from"], json!(was), "{tried}");
    let (code, _, told) = fleet.console(other).kedge(&with(&["--yes"]));
    assert_ne!(code, 0, "it does not lead");
    assert!(told.contains("KEDGE-API-0008"), "{told}");
    assert_eq!(leader.world.authority.pin(), was, "nothing was changed");
    let (code, said, told) = console.kedge(&with(&["--yes", "-o", "json"]));
    assert_eq!(code, 0, "{told}");
    let done: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json!(leader.world.authority.pin()), done["to"], "{done}");
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_carried_through_when_who_asked_for_it_hangs_up() {
    let Some(fleet) = Fleet::start().await else {
        return;
    };
    let manager = fleet.manager("one").await;
    fleet.leads(&manager).await;
    let store = &manager.world.store;
    let (token, record) = fleet.record(&manager, None, 1);
    fleet.signal(Signal::STOP);
    let made = store.create(record.key(), managers::TOKEN, record.document());
    let hung_up = timeout(Duration::from_millis(300), made).await.is_err();
    fleet.signal(Signal::CONT);
    assert!(hung_up, "an API server that stands still answers nobody");
    let name = format!("kedge-token-{}", token.id());
    eventually("the token is there", LIMIT, async || {
        !store.named("", "Secret", &name).by_key.is_empty()
    })
    .await;
    assert_eq!(fleet.uses(&token).await, 0);
    manager.stop().await;
}

/// How many of so many hosts a token admits that ask all managers at the same time.
async fn admitted(managers: [&Manager; 2], name: &str, hosts: usize, token: &Token) -> usize {
    let racers = (0..hosts).map(async |number: usize| {
        let manager = managers[number % managers.len()];
        let host = Host::with_token(manager, &format!("{name}-{number}"), token);
        // Whoever gets no answer, or is told to come again, does: as agents do.
        let began = Instant::now();
        loop {
            match host.client.ensure().await {
                Ok(()) => return true,
                Err(ClientError::Refused { status: 403, .. }) => return false,
                Err(ClientError::Unreachable { .. } | ClientError::Refused { status: 503, .. })
                    if began.elapsed() < LIMIT => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    });
    let won = join_all(racers).await.into_iter();
    won.filter(|won| *won).count()
}
