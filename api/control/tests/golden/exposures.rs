//! What a cluster offers at the gateways.

use kedge_control::exposure::{
    Epoch, Exposed, ExposedCertificate, Exposure, ExposureAnswer, ExposureChange, ExposureKind,
    ExposureList, ExposureSet,
};

use crate::{golden, text};

#[test]
fn exposures() {
    let spec = serde_json::json!({"ports": [{"name": "http", "port": 80}]});
    golden(
        "exposure-set-request",
        &ExposureSet {
            epoch: 3,
            kinds: vec![ExposureKind::Tcp, ExposureKind::Http],
            items: vec![Exposure {
                kind: ExposureKind::Tcp,
                name: text("web"),
                spec: spec.clone(),
            }],
            certificates: vec![ExposedCertificate {
                name: text("shop-tls"),
                chain: text("-----BEGIN CERTIFICATE-----\n"),
                key: text("-----BEGIN PRIVATE KEY-----\n"),
            }],
            confirm: false,
        },
    );
    golden(
        "exposure-change-request",
        &ExposureChange {
            epoch: 3,
            spec: spec.clone(),
        },
    );
    golden("exposure-epoch-request", &Epoch { epoch: 3 });
    golden(
        "exposure-answer",
        &ExposureAnswer {
            written: 1,
            removed: 0,
            held: vec![text("TCPLoadBalancer/mail")],
        },
    );
    golden(
        "exposure-list",
        &ExposureList {
            epoch: 3,
            items: vec![Exposed {
                kind: ExposureKind::Http,
                name: text("shop"),
                spec,
                status: serde_json::json!({"ingress": [{"ip": "203.0.113.7"}]}),
                generation: 2,
                observed_generation: 1,
            }],
            addresses: vec![text("203.0.113.7")],
        },
    );
}
