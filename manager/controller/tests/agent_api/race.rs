//! A token for so many, and a hundred that want it at once: the routes themselves, without a wire.

use std::{fs, net::Ipv4Addr, sync::Arc};

use axum::{body::Body, http::Request};
use hyper::{Method, StatusCode};
use kedge_control::{enrol::EnrolRequest, local::TokenRequest, token::Token};
use kedge_manager_controller::api::{routes, serve::Connection};
use rcgen::KeyPair;
use tokio::task::JoinSet;
use tower_service::Service as _;

use crate::{
    site::{Site, eventually, host_token, wireguard_key},
    wire::{identity_key, prove, signing_request},
};

const RACERS: usize = 100;
/// How many races are run: a thousand takes two minutes of a processor, `KEDGE_TRIALS` says more.
const TRIALS: u32 = 60;

/// A host that asks again in each trial: with the same key it is the same host.
struct Racer {
    name: String,
    request: EnrolRequest,
    digest: [u8; 32],
}

impl Racer {
    fn new(number: usize) -> Self {
        let name = format!("racer-{number}");
        let key: KeyPair = identity_key();
        let (csr, digest) = signing_request(&key);
        let nobody = Token::new("aaaaaaaaaa", &"A".repeat(43), &"A".repeat(43)).unwrap();
        let request = EnrolRequest {
            csr,
            tunnel_key: wireguard_key(&name),
            host_ref: None,
            facts: Default::default(),
            proof: prove(&nobody, &[0; 32], &digest),
            name: name.clone(),
        };
        Self {
            name,
            request,
            digest,
        }
    }

    fn wish(&self, token: &Token, exporter: &[u8; 32]) -> String {
        let mut request = self.request.clone();
        request.proof = prove(token, exporter, &self.digest);
        serde_json::to_string(&request).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_every_race_a_token_admits_as_many_as_it_may_and_never_more() {
    let site = Site::start().await;
    let tenant = "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {name: race}\nspec: {}\n";
    fs::write(site.objects().join("race.yaml"), tenant).unwrap();
    let world = &site.manager.as_ref().unwrap().world;
    let router = routes(Arc::clone(world));
    let racers: Vec<Racer> = (0..RACERS).map(Racer::new).collect();
    let wanted = std::env::var("KEDGE_TRIALS").ok();
    let trials = wanted.map_or(TRIALS, |text| text.parse().unwrap());
    let mut admitted = 0;
    for trial in 0..trials {
        let uses = trial % 4 + 1;
        let request = TokenRequest {
            tenant: Some("race".to_owned()),
            max_uses: Some(uses),
            ..host_token(None)
        };
        let token: Token = eventually("its tenant is read", async || {
            let body = serde_json::to_value(&request).unwrap();
            let (status, made) = site.ask(Method::POST, "/v1/tokens", body).await;
            (status == StatusCode::CREATED)
                .then(|| made["token"].as_str().unwrap().parse().unwrap())
        })
        .await;
        let mut race = JoinSet::new();
        for (number, racer) in racers.iter().enumerate() {
            let mut exporter = [0; 32];
            exporter[..8].copy_from_slice(&(number as u64).to_be_bytes());
            let connection = Connection {
                address: (Ipv4Addr::LOCALHOST, 1).into(),
                exporter,
                certificate: None,
            };
            let wish = Request::post("/kedge/v1/enrol")
                .extension(Arc::new(connection))
                .body(Body::from(racer.wish(&token, &exporter)))
                .unwrap();
            let (mut router, name) = (router.clone(), racer.name.clone());
            race.spawn(async move { (name, router.call(wish).await.unwrap().status()) });
        }
        let ended = race.join_all().await;
        let winners: Vec<&String> = ended
            .iter()
            .filter(|(_, status)| *status == StatusCode::CREATED)
            .map(|(name, _)| name)
            .collect();
        let losers = ended
            .iter()
            .filter(|(_, status)| *status == StatusCode::FORBIDDEN);
        assert_eq!(winners.len(), uses as usize, "trial {trial}: {ended:?}");
        assert_eq!(
            losers.count(),
            RACERS - winners.len(),
            "trial {trial}: {ended:?}"
        );
        admitted += winners.len();
    }
    let list = site.get("/v1/tokens").await;
    let counted: u64 = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| token["uses"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, admitted as u64, "each use is written down");
}
