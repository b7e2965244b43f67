//! The gateway's key, and the one that follows it (docs/adr/0040).

use std::time::Duration;

use kedge_control::{local::TunnelKey as View, report::NextKey};
use kedge_core::{Coded as _, Instant, Problem};
use kedge_host::{
    identity::TunnelKey,
    tunnel_keys::{Standing, TunnelKeys},
    wall,
};
use kedge_net::clock;
use kedge_tunnel_proto::keys::{Overlap, PrivateKey, PublicKey};
use tracing::{info, warn};

use crate::hub::Hub;

/// The keys of the gateway.
pub(crate) struct Keys {
    files: TunnelKeys,
    /// The key in use.
    pub current: PublicKey,
    /// The next one, and since when this process has it.
    next: Option<(PublicKey, Instant)>,
    /// The one before: hosts that have not heard of its end call the gateway by it.
    former: Option<PublicKey>,
    /// How far the hosts are, as of the last second.
    standing: Standing,
}

impl Keys {
    pub fn new(files: TunnelKeys) -> Result<Self, Problem> {
        let mut keys = Self {
            current: private(files.current())?.public(),
            files,
            next: None,
            former: None,
            standing: Standing::default(),
        };
        keys.look()?;
        Ok(keys)
    }

    /// The keys as the device takes them.
    pub fn private(&self) -> Result<(PrivateKey, Option<PrivateKey>), Problem> {
        let next = self.files.next().map(private).transpose()?;
        Ok((private(self.files.current())?, next))
    }

    /// Whether the gateway is known by this key.
    pub fn are(&self, key: &PublicKey) -> bool {
        let next = self.next.as_ref().map(|(next, _)| next);
        [Some(&self.current), next, self.former.as_ref()].contains(&Some(key))
    }

    /// The next key, as the manager is told of it.
    pub fn reported(&self) -> Option<NextKey> {
        let (key, _) = self.next.as_ref()?;
        let time = |at: Option<std::time::SystemTime>| at.map(wall::rfc3339).unwrap_or_default();
        Some(NextKey {
            public_key: key.to_string(),
            since: time(self.files.next_since()),
            until: time(self.files.until(LONGEST)),
        })
    }

    fn look(&mut self) -> Result<(), Problem> {
        let (current, next) = self.private()?;
        let before = std::mem::replace(&mut self.current, current.public());
        if before != self.current {
            self.former = Some(before);
        }
        self.next = next.map(|next| (next.public(), clock::now()));
        Ok(())
    }
}

impl Hub {
    /// How far the change of keys is.
    pub fn tunnel_key(&self) -> View {
        let keys = &self.keys;
        let next = keys.next.as_ref().map(|(key, _)| key.to_string());
        let public = (keys.current.to_string(), next);
        keys.files.view(public, keys.standing.clone(), LONGEST)
    }

    /// Makes a key that hosts go over to.
    pub fn rotate_key(&mut self, because: &str) -> Result<View, Problem> {
        self.keys.files.begin()?;
        self.have_keys(because)?;
        Ok(self.tunnel_key())
    }

    /// What is due about once a second: a key begins to change when it is old, and the old one goes when
    /// nobody needs it.
    pub fn tend_keys(&mut self) {
        let every = self.live.config().tunnel.key_rotation;
        self.keys.standing = self.standing();
        let files = &self.keys.files;
        let done = if files.next().is_none() {
            if !files.is_due(every) {
                return;
            }
            self.keys.files.begin().map(|()| "its age")
        } else if self.keys.standing.over {
            let done = self.keys.files.finish();
            done.map(|()| "all hosts use the next one")
        } else if files.is_overdue(LONGEST) {
            let done = self.keys.files.finish();
            done.map(|()| "it was kept long enough")
        } else {
            return;
        };
        if let Err(problem) = done.and_then(|because| self.have_keys(because)) {
            warn!(KEDGE_CODE = %problem.code, what = problem.what, "the gateway's key stays");
        }
    }

    /// Says that hosts do not go over to the next key.
    pub fn key_problem(&self) -> Option<Problem> {
        let files = &self.keys.files;
        let lingers = files.lingers(&self.keys.standing, LONGEST);
        lingers.or_else(|| files.problem().cloned())
    }

    /// How far the peers are with the next key. The old one is kept for every host: one that is off now
    /// may know no other when it comes back.
    fn standing(&self) -> Standing {
        let Some((next, since)) = &self.keys.next else {
            return Standing::default();
        };
        let Overlap {
            moved,
            waiting,
            over,
        } = self.keeper.overlap(next, *since, |_| true);
        Standing {
            moved,
            waiting,
            over,
        }
    }

    fn have_keys(&mut self, because: &str) -> Result<(), Problem> {
        self.keys.look()?;
        let (key, next) = self.keys.private()?;
        let (public, many) = (key.public(), 1 + usize::from(next.is_some()));
        info!(public_key = %public, keys = many, because, "key of the gateway");
        self.keeper.set_keys(key, next);
        self.keys.standing = self.standing();
        self.report();
        Ok(())
    }
}

fn private(key: &TunnelKey) -> Result<PrivateKey, Problem> {
    PrivateKey::from_bytes(*key.expose()).map_err(|error| error.problem())
}

/// How long a gateway accepts the key of before at most: a host that was off so long has to ask the
/// manager.
const LONGEST: Duration = Duration::from_hours(30 * 24);
