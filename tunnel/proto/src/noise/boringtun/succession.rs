//! A core and the one before it.
//!
//! A `Tunn` has one preshared key for life. With another key a new one takes all handshakes, and the
//! former goes on with its session until there is a newer one: packets are sent without a gap, and
//! what comes late is opened.

use zeroize::Zeroizing;

use super::{Core, FrontDoor};
use crate::{
    drops::DropReason,
    keys::PublicKey,
    noise::{Opened, Tick},
    wire::{self, Kind},
};

/// One peer's handshakes and sessions.
pub(crate) struct Succession {
    core: Core,
    /// Its handshakes are over.
    former: Option<Core>,
}

impl Succession {
    pub(crate) fn new(
        door: &FrontDoor,
        peer: &PublicKey,
        psk: Option<Zeroizing<[u8; 32]>>,
        index: u32,
    ) -> Self {
        Self {
            core: Core::new(door, peer, psk, index),
            former: None,
        }
    }

    /// Goes on with the session there was before; the index of the core that has it, if one does.
    pub(crate) fn succeed(&mut self, before: Self) -> Option<u32> {
        let Self { core, former } = before;
        self.former = [Some(core), former]
            .into_iter()
            .flatten()
            .find(Core::has_session);
        self.former.as_ref().map(|former| former.index)
    }

    pub(crate) fn seal(&mut self, inner: &[u8], dst: &mut [u8]) -> Result<usize, DropReason> {
        match &mut self.former {
            Some(former) if !self.core.has_session() => former.seal(inner, dst),
            _ => self.core.seal(inner, dst),
        }
    }

    pub(crate) fn open(
        &mut self,
        kind: Kind,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Opened, DropReason> {
        match kind {
            Kind::Initiation => self.core.keep_confirmed(dst),
            Kind::Data { receiver, .. } => {
                if let Some(former) = self.former_of(receiver) {
                    return former.open(kind, datagram, dst);
                }
            }
            Kind::Response { .. } | Kind::CookieReply { .. } => {}
        }
        self.core.open(kind, datagram, dst)
    }

    pub(crate) fn tick(&mut self, dst: &mut [u8]) -> Tick {
        let tick = self.core.tick(dst);
        let Some(former) = &mut self.former else {
            return tick;
        };
        if let Tick::Send(_) = tick {
            return tick;
        }
        let of_former = former.tick(dst);
        if !former.has_session() {
            self.former = None;
            return tick;
        }
        match of_former {
            // An initiation asks for a new session, which is the core's.
            Tick::Send(length) => match dst.get(..length).map(wire::classify) {
                Some(Ok(Kind::Initiation)) => {
                    self.initiate(false, dst).map_or(Tick::Nothing, Tick::Send)
                }
                _ => of_former,
            },
            // While the former has a session nothing is over.
            Tick::Nothing | Tick::Expired => Tick::Nothing,
        }
    }

    pub(crate) fn initiate(&mut self, force: bool, dst: &mut [u8]) -> Option<usize> {
        self.core.initiate(force, dst)
    }

    pub(crate) fn answered(&mut self, index: u32) {
        self.core.answered(index);
    }

    pub(crate) fn confirm(&mut self, index: u32) -> bool {
        let succeeded = self.core.has_session();
        match self.former_of(index) {
            Some(former) => !succeeded && former.confirm(index),
            None => self.core.confirm(index),
        }
    }

    pub(crate) fn forget_confirmed(&mut self) {
        self.core.forget_confirmed();
        self.former = None;
    }

    pub(crate) fn is_newest(&self, index: u32) -> bool {
        let former = self.former.as_ref().filter(|_| !self.core.has_session());
        self.core.is_newest(index) || former.is_some_and(|former| former.is_newest(index))
    }

    pub(crate) fn has_session(&self) -> bool {
        self.core.has_session() || self.former.as_ref().is_some_and(Core::has_session)
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.core.is_expired()
    }

    /// The former core, if the session is one of its.
    fn former_of(&mut self, session: u32) -> Option<&mut Core> {
        self.former
            .as_mut()
            .filter(|former| former.index == session >> 8)
    }
}
