//! The keys a device is known by: one, or two while it goes over to another.

use kedge_tunnel_proto::keys::{PrivateKey, PublicKey};
use tracing::info;

use super::Inner;
use crate::{
    error::ApplyError,
    noise::noise,
    worker::{Command, Identities, Reconfiguration},
};

impl Inner {
    /// The key that peers know it by, of two the older one.
    pub(super) fn public_key(&self) -> PublicKey {
        self.control().public_key
    }

    /// Is known by exactly these keys, the newest last.
    pub(super) fn set_keys(&self, keys: &[PrivateKey]) -> Result<(), ApplyError> {
        let mut control = self.control();
        let wanted: Vec<PublicKey> = keys.iter().map(PrivateKey::public).collect();
        let Some(first) = wanted.first().copied().filter(|_| wanted != control.keys) else {
            return Ok(());
        };
        // Each worker has randomness of its own.
        let mut orders = Vec::new();
        for _ in 0..self.crew.count() {
            let mut identities = Identities::default();
            for (key, public) in keys.iter().zip(&wanted) {
                if !control.keys.contains(public) {
                    let noise = noise(self.noise_core).map_err(ApplyError::Randomness)?;
                    identities.add.push((key.clone(), noise));
                }
            }
            let gone = control.keys.iter().filter(|key| !wanted.contains(key));
            identities.drop.extend(gone.copied());
            let reconfiguration = Reconfiguration {
                identities,
                ..Reconfiguration::default()
            };
            orders.push(Command::Reconfigure(Box::new(reconfiguration)));
        }
        let (from, to) = (control.keys.last(), wanted.last());
        info!(
            from = from.map(tracing::field::display),
            to = to.map(tracing::field::display),
            keys = wanted.len(),
            "keys of the tunnel device"
        );
        control.public_key = first;
        control.directory.set_own(wanted.clone());
        control.keys = wanted;
        self.crew.tell_each(orders)
    }
}
