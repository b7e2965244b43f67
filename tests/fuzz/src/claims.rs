//! What hosts and gateways say of where a host is: nothing panics, and what can be read is read again from
//! what would be sent on.

use kedge_tunnel_proto::echo::{CLAIM_LENGTH, Claim, Claims, emit_relays, parse_relay};

/// What stands behind a probe, or comes from another gateway.
pub fn claims(bytes: &[u8]) {
    if let Some(claim) = Claim::parse(bytes) {
        assert_eq!(claim.emit()[8..], bytes[8..CLAIM_LENGTH]);
        assert_eq!(Claim::parse(&claim.emit()), Some(claim));
    }
    let told = parse_relay(bytes);
    let datagrams = emit_relays(told.iter().copied());
    let again: Vec<_> = datagrams.iter().flat_map(|one| parse_relay(one)).collect();
    assert_eq!(again, told);
    let mut newest = Claims::default();
    for (host, claim) in &told {
        newest.take(*host, *claim);
        assert!(newest.of(*host) >= Some(*claim), "an older one won");
    }
}
