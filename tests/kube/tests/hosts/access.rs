//! Out, and not to be mistaken for another: whichever manager leads.

use std::time::{Duration, Instant};

use kedge_control::agent::{GatewayConfig, HostConfig};
use kedge_host::enrol::ClientError;
use kedge_tests_kube::eventually;
use serde_json::json;

use crate::{
    exposures::{are, says, speaks},
    fleet::{Fleet, LIMIT},
    host::Host,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_ban_and_a_copy_are_known_to_every_manager_and_outlive_the_leader() {
    let Some(fleet) = Fleet::start().await else {
        return;
    };
    fleet.gateway().await;
    let one = fleet.manager("one").await;
    fleet.leads(&one).await;
    let two = fleet.manager("two").await;
    fleet.knows_the_leader(&two).await;
    let console = fleet.console(&one);
    let wanted = json!({"role": "Gateway", "gateway": "gw"});
    let gateway = Host::gateway(&two, "gw-0", &console.token(wanted).await);
    gateway.client.ensure().await.unwrap();
    let peers = async || {
        let config = gateway
            .client
            .config::<GatewayConfig>(None, Duration::ZERO)
            .await;
        let tunnel = config.ok().flatten().and_then(|config| config.tunnel);
        let peers = tunnel.map(|tunnel| tunnel.peers).unwrap_or_default();
        peers.into_iter().map(|peer| peer.name).collect::<Vec<_>>()
    };
    let thief = Host::with_token(&two, "thief", &fleet.token(&one, 1).await);
    let twin = Host::with_token(&two, "twin", &fleet.token(&one, 1).await);
    for host in [&thief, &twin] {
        host.client.ensure().await.unwrap();
        host.report("10.20.14.40").await.unwrap();
    }
    let (link, twins) = (thief.link(), twin.link());
    for link in [&link, &twins] {
        eventually("it is connected", LIMIT, async || {
            link.standing().borrow().connected
        })
        .await;
    }
    eventually("the gateway has both", LIMIT, async || {
        peers().await.len() == 2
    })
    .await;

    // It speaks for its cluster, until another takes over and says one of them as well.
    let epoch = speaks(&fleet, &two, &thief, "thief").await;
    let (status, said) = says(&two, &thief, epoch, &["db", "mail", "web"]).await;
    assert_eq!((status, &said["written"]), (200, &json!(3)), "{said}");
    let epoch = speaks(&fleet, &two, &twin, "twin").await;
    let (status, said) = says(&two, &twin, epoch, &["web"]).await;
    assert_eq!((status, &said["removed"]), (200, &json!(0)), "{said}");
    let theirs = [("db", "thief"), ("mail", "thief"), ("web", "twin")];
    are(&fleet, "each says who said it last", &theirs).await;

    // Cut off wherever it is: at the manager it does not speak to directly, and at the gateway.
    let banned = Instant::now();
    fleet
        .patch_host("thief", json!({"spec": {"access": "Banned"}}))
        .await;
    eventually("its peer is gone", LIMIT, async || {
        peers().await == ["edge/twin"]
    })
    .await;
    let tunnel = banned.elapsed();
    eventually("its link is down", LIMIT, async || {
        !link.standing().borrow().connected
    })
    .await;
    eprintln!(
        "banned: peer gone after {tunnel:?}, link down after {:?}",
        banned.elapsed()
    );
    are(&fleet, "what it offered is withdrawn", &[("web", "twin")]).await;
    let said = thief.report("10.20.14.40").await;
    assert!(
        matches!(said, Err(ClientError::Refused { status: 403, .. })),
        "{said:?}"
    );
    eventually("the tenant remembers its keys", LIMIT, async || {
        let denied = fleet.the_tenant().await["spec"]["enrollment"]["denied"].clone();
        denied.as_array().is_some_and(|all| all.len() >= 2)
    })
    .await;
    // Out for a while is out as well, and who comes back says it again.
    fleet
        .patch_host("twin", json!({"spec": {"access": "Suspended"}}))
        .await;
    are(&fleet, "nobody offers anything", &[]).await;
    fleet
        .patch_host("twin", json!({"spec": {"access": "Active"}}))
        .await;
    eventually("it is heard again", LIMIT, async || {
        says(&two, &twin, epoch, &["web"]).await.0 == 200
    })
    .await;
    are(&fleet, "it is offered again", &[("web", "twin")]).await;
    // The record goes, and a fresh token does not help: neither here nor under the next leader.
    drop(link);
    fleet.delete_host("thief").await;
    let thief = thief.begins_anew(&two, "thief", &fleet.token(&one, 9).await);
    let refused = thief.client.ensure().await;
    assert!(
        matches!(refused, Err(ClientError::Refused { status: 403, .. })),
        "{refused:?}"
    );

    // A copy of a disk asks while the original lives.
    let copy = twin.copied(&two, "twin");
    let unique = async || {
        let host = fleet.host("twin").await;
        let all = host["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let unique = all.into_iter().find(|one| one["type"] == "IdentityUnique");
        unique
            .map(|unique| unique["status"].clone())
            .unwrap_or_default()
    };
    let said = copy.client.config::<HostConfig>(None, Duration::ZERO).await;
    assert!(
        matches!(said, Err(ClientError::Refused { status: 409, .. })),
        "{said:?}"
    );
    eventually("it is told", LIMIT, async || unique().await == "False").await;
    one.stop().await;
    fleet.leads(&two).await;
    eventually(
        "the original is served by the next leader",
        LIMIT,
        async || twin.report("10.20.14.41").await.is_ok(),
    )
    .await;
    eventually("the new address is written down", LIMIT, async || {
        fleet.host("twin").await["status"]["addresses"][0]["address"] == "10.20.14.41"
    })
    .await;
    assert_eq!(
        unique().await,
        "False",
        "the next leader did not see it, and does not forget it"
    );
    let refused = thief.client.ensure().await;
    assert!(
        matches!(refused, Err(ClientError::Refused { status: 403, .. })),
        "{refused:?}"
    );
    two.stop().await;
}
