//! X25519.

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use zeroize::Zeroizing;

use super::primitives::Secret;
use crate::drops::DropReason;

/// A private key and its public one. Wiped when dropped.
pub(super) struct KeyPair {
    secret: PrivateKey,
    pub(super) public: [u8; 32],
}

impl KeyPair {
    /// The pair of any 32 bytes; clamping happens in the arithmetic.
    #[expect(
        clippy::expect_used,
        reason = "any 32 bytes are an X25519 key, and its public key has 32"
    )]
    pub(super) fn new(secret: &Secret) -> Self {
        let secret = PrivateKey::from_private_key(&X25519, &**secret).expect("32 bytes are a key");
        let public = secret.compute_public_key().expect("every key has a point");
        let public = public.as_ref().try_into().expect("a point has 32 bytes");
        Self { secret, public }
    }

    /// What both ends know. A point of low order, whose secret everybody knows, is refused.
    pub(super) fn agree(&self, public: &[u8; 32]) -> Result<Secret, DropReason> {
        let point = UnparsedPublicKey::new(&X25519, public);
        agree(&self.secret, point, DropReason::Forged, |secret| {
            let secret: &[u8; 32] = secret.try_into().map_err(|_| DropReason::Forged)?;
            Ok(Zeroizing::new(*secret))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_and_nobody_else() {
        let [a, b, c] = [1, 2, 3].map(|byte| KeyPair::new(&Zeroizing::new([byte; 32])));
        let shared = a.agree(&b.public).map(|secret| *secret);
        assert_eq!(shared, b.agree(&a.public).map(|secret| *secret));
        assert_ne!(shared, c.agree(&a.public).map(|secret| *secret));
        // Another implementation's arithmetic.
        let theirs = boringtun::x25519::StaticSecret::from([2; 32]);
        let point = boringtun::x25519::PublicKey::from(a.public);
        assert_eq!(shared, Ok(theirs.diffie_hellman(&point).to_bytes()));
    }

    #[test]
    fn points_of_low_order_are_refused() {
        let pair = KeyPair::new(&Zeroizing::new([7; 32]));
        let mut one = [0; 32];
        one[0] = 1;
        for point in [[0; 32], one] {
            assert_eq!(pair.agree(&point).map(|_| ()), Err(DropReason::Forged));
        }
    }
}
