//! Which of several workers has a peer.

use super::{Change, Entry, PeerId};
use crate::{keys::PublicKey, memory::Memory};

/// A peer that another worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// The peer.
    pub id: PeerId,
    /// Whose it is.
    pub worker: u8,
    /// Whether it passes on packets of others.
    pub relays: bool,
}

/// Which of `workers` has the peer with that key, now and after a restart: keys are as good as random.
#[must_use]
pub const fn owner(key: &PublicKey, workers: u8) -> u8 {
    match (key.as_bytes(), workers) {
        (_, 0) => 0,
        ([first, ..], many) => *first % many,
    }
}

impl Change {
    /// What of it each of `workers` has to know: all about its own peers, and of those of others whose
    /// they are.
    #[must_use]
    pub fn share(self, workers: u8) -> Vec<Self> {
        if workers <= 1 {
            return vec![self];
        }
        let mut shares: Vec<Self> = (0..workers)
            .map(|_| Self {
                remove: self.remove.clone(),
                table: self.table.clone(),
                ..Self::default()
            })
            .collect();
        let others = |shares: &mut Vec<Self>, entry: &Entry, home: &PublicKey| {
            let worker = owner(home, workers);
            let other = Other {
                id: entry.id,
                worker,
                relays: entry.spec.relays,
            };
            for (number, share) in (0..).zip(shares.iter_mut()) {
                if number != worker {
                    share.others.push(other);
                }
            }
            // The first worker hears whoever wants a session, and knows them by their keys.
            let strays = entry
                .spec
                .keys()
                .filter(|key| owner(key, workers) != worker);
            let strays = strays.map(|key| (entry.id, key, worker));
            if let Some(first) = shares.first_mut() {
                first.strays.extend(strays);
            }
            usize::from(worker)
        };
        for entry in self.add {
            let worker = others(&mut shares, &entry, &entry.spec.public_key);
            shares
                .get_mut(worker)
                .into_iter()
                .for_each(|share| share.add.push(entry.clone()));
        }
        for update in self.update {
            let worker = others(&mut shares, &update.entry, &update.home);
            shares
                .get_mut(worker)
                .into_iter()
                .for_each(|share| share.update.push(update.clone()));
        }
        shares
    }
}

impl Memory {
    /// What each of `workers` has to know of its peers.
    #[must_use]
    pub fn share(self, workers: u8) -> Vec<Self> {
        let mut shares: Vec<Self> = (0..workers.max(1)).map(|_| Self::default()).collect();
        for (key, remembered) in self.0 {
            if let Some(share) = shares.get_mut(usize::from(owner(&key, workers))) {
                share.0.insert(key, remembered);
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        directory::{Directory, PeerSpec},
        keys::PrivateKey,
    };

    fn spec(number: u8, keepalive: u64) -> PeerSpec {
        PeerSpec {
            name: format!("peer-{number}"),
            public_key: PrivateKey::from_random([number; 32]).public(),
            next_key: None,
            preshared_key: None,
            endpoint: None,
            allowed_ips: vec![format!("10.0.0.{number}/32").parse().unwrap()],
            accepts: Vec::new(),
            relays: number.is_multiple_of(3),
            realm: None,
            keepalive: Some(std::time::Duration::from_secs(keepalive)),
            always_up: false,
        }
    }

    #[test]
    fn every_peer_is_one_workers_and_all_others_know_whose() {
        for workers in 1..=4 {
            let mut directory = Directory::unruled();
            let mut having = vec![std::collections::BTreeSet::new(); usize::from(workers)];
            for round in [1..40_u8, 20..60, 1..5] {
                let keepalive = u64::from(round.start);
                let specs = round
                    .clone()
                    .map(|number| spec(number, keepalive))
                    .collect();
                let change = directory.plan(specs).unwrap();
                directory.commit(&change);
                let shares = change.share(workers);
                assert_eq!(shares.len(), usize::from(workers));
                for (number, share) in (0_u8..).zip(&shares) {
                    assert!(share.table.is_some(), "all have the whole table");
                    let own = &mut having[usize::from(number)];
                    for gone in &share.remove {
                        own.remove(gone);
                    }
                    let updated = share.update.iter().map(|update| &update.entry);
                    for entry in share.add.iter().chain(updated) {
                        assert_eq!(owner(&entry.spec.public_key, workers), number);
                        own.insert(entry.id);
                    }
                    for other in &share.others {
                        assert_ne!(other.worker, number);
                        assert!(!own.contains(&other.id));
                    }
                }
                let all: usize = having.iter().map(std::collections::BTreeSet::len).sum();
                assert_eq!(all, directory.entries().count(), "no peer is two workers'");
                for entry in directory.entries() {
                    let owner = owner(&entry.spec.public_key, workers);
                    assert!(having[usize::from(owner)].contains(&entry.id));
                }
            }
        }
    }
}
