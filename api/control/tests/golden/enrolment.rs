//! Identities and tokens.

use kedge_control::{
    Document,
    enrol::{
        EnrolRequest, Enrolled, Facts, HostRef, Proof, ProofKind, RecoverRequest, RenewRequest,
        Waiting,
    },
    identity::Role,
    local::{
        Approval, ApprovalRequest, AuthorityRotation, BoundTo, HostApproval, RotationRequest,
        TokenCreated, TokenList, TokenRequest, TokenSummary,
    },
};

use crate::{golden, text};

#[test]
fn enrolment() {
    let proof = |kind, id: &str| Proof {
        kind,
        id: text(id),
        signature: text("c2lnbmF0dXJl"),
    };
    let host_ref = HostRef {
        api_group: text("infrastructure.cluster.x-k8s.io"),
        kind: text("ElementalHost"),
        name: text("edge-a"),
    };
    golden(
        "enrol-request",
        &EnrolRequest {
            name: text("edge-a"),
            csr: text("-----BEGIN CERTIFICATE REQUEST-----\n"),
            tunnel_key: text("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
            host_ref: Some(host_ref.clone()),
            facts: Facts {
                hostname: text("edge-a"),
                machine_id: text("4d"),
                boot_id: text("0b0e"),
                version: text("0.1.0"),
                serial: text("XK-1"),
                macs: vec![text("52:54:00:12:34:56")],
            },
            proof: proof(ProofKind::Token, "abcdefgh01"),
        },
    );
    golden(
        "renew-request",
        &RenewRequest {
            csr: text("-----BEGIN CERTIFICATE REQUEST-----\n"),
            generation: 2,
            renewal_id: text("5e"),
        },
    );
    golden(
        "recover-request",
        &RecoverRequest {
            csr: text("-----BEGIN CERTIFICATE REQUEST-----\n"),
            certificate: text("-----BEGIN CERTIFICATE-----\n"),
            generation: 2,
            renewal_id: text("5e"),
            proof: proof(ProofKind::BoundKey, "edge-a"),
        },
    );
    golden(
        "enrolled",
        &Enrolled {
            role: Role::Host,
            uid: text("0b0e4d5e-0000-4000-8000-000000000000"),
            name: text("edge-a"),
            path: text("/kedge/v1/tenants/store-014/hosts/edge-a"),
            certificate: text("-----BEGIN CERTIFICATE-----\n"),
            ca_bundle: text("-----BEGIN CERTIFICATE-----\n"),
            generation: 1,
        },
    );
    let bound_to = BoundTo {
        machine_id: Some(text("4d")),
        serial: Some(text("XK-1")),
        mac: Some(text("52:54:00:12:34:56")),
        hostname_regex: Some(text("edge-.*")),
    };
    let summary = TokenSummary {
        id: text("abcdefgh01"),
        role: Role::Host,
        scope: text("store-014"),
        host_ref: Some(host_ref.clone()),
        bound_to: bound_to.clone(),
        labels: [(text("site"), text("store-014"))].into(),
        approval: Some(Approval::Manual),
        expires: text("2026-01-01T01:00:00Z"),
        uses: 0,
        max_uses: 1,
        state: text("usable"),
    };
    golden(
        "token-request",
        &TokenRequest {
            role: Role::Host,
            tenant: Some(text("store-014")),
            gateway: None,
            host_ref: Some(host_ref),
            bound_to,
            labels: [(text("site"), text("store-014"))].into(),
            approval: Some(Approval::Manual),
            ttl_seconds: Some(3600),
            max_uses: Some(1),
        },
    );
    let token = TokenCreated {
        token: text("kedge1.…"),
        summary: summary.clone(),
    };
    golden("token", &Document::new(token));
    golden(
        "token-list",
        &Document::new(TokenList {
            items: vec![summary],
        }),
    );
    golden(
        "waiting",
        &Waiting {
            key_hash: text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        },
    );
    golden(
        "approval-request",
        &ApprovalRequest {
            name: text("edge-a"),
            namespace: Some(text("store-014")),
            key_hash: Some(text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")),
            dry_run: false,
        },
    );
    golden(
        "host-approval",
        &Document::new(HostApproval {
            namespace: text("store-014"),
            name: text("edge-a"),
            tenant: text("store-014"),
            key_hash: text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            since: text("2026-01-01T00:00:00Z"),
            approved: true,
        }),
    );
    golden(
        "rotation-request",
        &RotationRequest {
            overlap_seconds: Some(3600),
            dry_run: true,
        },
    );
    golden(
        "authority-rotation",
        &Document::new(AuthorityRotation {
            from: text("pin"),
            to: Some(text("nip")),
            until: text("2026-02-01T00:00:00Z"),
        }),
    );
}
