//! The handshake: Noise `IKpsk2` as in section 5.4 of the WireGuard paper.
//!
//! ```text
//!  initiator                                         responder
//!  Pending::initiate ── initiation ─► Call::read         who is it? one Diffie-Hellman
//!                                     Call::stamp        is it new? none, with a cached secret
//!  Pending::finish  ◄── response ──── Call::respond      the rest: a key and two
//! ```
//!
//! mac1 and mac2 at the end of each message belong to `macs`.

use zeroize::Zeroizing;

use super::{
    exchange::KeyPair,
    primitives::{Secret, hash, kdf1, kdf2, kdf3, open, seal},
    random::Random,
    stamp::Stamp,
};
use crate::{drops::DropReason, wire::INITIATION};

/// The other end of a handshake.
pub(super) struct Remote {
    pub(super) public: [u8; 32],
    /// Zeros when there is none.
    pub(super) psk: Secret,
    /// What both static keys make.
    pub(super) shared: Secret,
}

/// An initiation of ours that waits for its answer.
pub(super) struct Pending {
    pub(super) index: u32,
    ephemeral: KeyPair,
    transcript: Transcript,
}

/// An initiation of which is known whose it claims to be.
pub(crate) struct Call {
    sender: u32,
    ephemeral: [u8; 32],
    /// The initiator's static key, unproven until the stamp opens.
    pub(super) public: [u8; 32],
    stamp: [u8; 12],
    stamp_tag: [u8; 16],
    transcript: Transcript,
}

/// What a handshake ends with.
pub(super) struct Keys {
    /// The peer's index.
    pub(super) remote: u32,
    pub(super) seal: Secret,
    pub(super) open: Secret,
}

/// The chaining key and the hash of all that was said.
#[derive(Clone)]
struct Transcript {
    chain: Secret,
    hash: [u8; 32],
}

impl Pending {
    /// Writes an initiation, without its macs, to the start of `dst`.
    pub(super) fn initiate(
        us: &KeyPair,
        remote: &Remote,
        random: &mut Random,
        index: u32,
        stamp: Stamp,
        dst: &mut [u8],
    ) -> Result<Self, DropReason> {
        let ephemeral = KeyPair::new(&random.bytes());
        let mut transcript = Transcript::new(&remote.public);
        transcript.mix_point(&ephemeral.public);
        let key = transcript.mix_key(&*ephemeral.agree(&remote.public)?);
        let mut public = us.public;
        let public_tag = transcript.seal(&key, &mut public)?;
        let key = transcript.mix_key(&remote.shared);
        let mut stamp = stamp.to_bytes();
        let stamp_tag = transcript.seal(&key, &mut stamp)?;
        write(
            dst,
            [
                &[1, 0, 0, 0],
                &index.to_le_bytes(),
                &ephemeral.public,
                &public,
                &public_tag,
                &stamp,
                &stamp_tag,
            ],
        )?;
        Ok(Self {
            index,
            ephemeral,
            transcript,
        })
    }

    /// Reads the response. Whatever it is, the initiation still waits for the right one.
    pub(super) fn finish(
        &self,
        us: &KeyPair,
        remote: &Remote,
        response: &[u8],
    ) -> Result<Keys, DropReason> {
        let mut rest = response;
        let [_, sender, _] = [
            take::<4>(&mut rest)?,
            take::<4>(&mut rest)?,
            take::<4>(&mut rest)?,
        ];
        let ephemeral = take::<32>(&mut rest)?;
        let tag = take::<16>(&mut rest)?;
        let mut transcript = self.transcript.clone();
        transcript.mix_point(&ephemeral);
        transcript.mix_secret(&*self.ephemeral.agree(&ephemeral)?);
        transcript.mix_secret(&*us.agree(&ephemeral)?);
        let key = transcript.mix_psk(&remote.psk);
        transcript.open(&key, &mut [], &tag)?;
        let (seal, open) = transcript.split();
        Ok(Keys {
            remote: u32::from_le_bytes(sender),
            seal,
            open,
        })
    }
}

impl Call {
    /// Reads whose initiation it is. Its mac1 has been checked.
    pub(super) fn read(us: &KeyPair, initiation: &[u8]) -> Result<Self, DropReason> {
        let mut rest = initiation.get(4..INITIATION).ok_or(DropReason::Malformed)?;
        let sender = u32::from_le_bytes(take(&mut rest)?);
        let ephemeral = take::<32>(&mut rest)?;
        let mut public = take::<32>(&mut rest)?;
        let public_tag = take::<16>(&mut rest)?;
        let stamp = take::<12>(&mut rest)?;
        let stamp_tag = take::<16>(&mut rest)?;
        let mut transcript = Transcript::new(&us.public);
        transcript.mix_point(&ephemeral);
        let key = transcript.mix_key(&*us.agree(&ephemeral)?);
        transcript.open(&key, &mut public, &public_tag)?;
        Ok(Self {
            sender,
            ephemeral,
            public,
            stamp,
            stamp_tag,
            transcript,
        })
    }

    /// Opens the stamp, which only the owner of the static key can have sealed.
    pub(super) fn stamp(&mut self, remote: &Remote) -> Result<Stamp, DropReason> {
        let key = self.transcript.mix_key(&remote.shared);
        let mut stamp = self.stamp;
        self.transcript.open(&key, &mut stamp, &self.stamp_tag)?;
        Ok(Stamp::from_bytes(&stamp))
    }

    /// Writes the response, without its macs, to the start of `dst`. The stamp has been opened.
    pub(super) fn respond(
        self,
        remote: &Remote,
        random: &mut Random,
        index: u32,
        dst: &mut [u8],
    ) -> Result<Keys, DropReason> {
        let ephemeral = KeyPair::new(&random.bytes());
        let mut transcript = self.transcript;
        transcript.mix_point(&ephemeral.public);
        transcript.mix_secret(&*ephemeral.agree(&self.ephemeral)?);
        transcript.mix_secret(&*ephemeral.agree(&self.public)?);
        let key = transcript.mix_psk(&remote.psk);
        let tag = transcript.seal(&key, &mut [])?;
        write(
            dst,
            [
                &[2, 0, 0, 0],
                &index.to_le_bytes(),
                &self.sender.to_le_bytes(),
                &ephemeral.public,
                &tag,
            ],
        )?;
        let (open, seal) = transcript.split();
        Ok(Keys {
            remote: self.sender,
            seal,
            open,
        })
    }
}

impl Transcript {
    fn new(responder: &[u8; 32]) -> Self {
        let chain = hash([CONSTRUCTION]);
        Self {
            hash: hash([&hash([&chain, IDENTIFIER]), responder]),
            chain: Zeroizing::new(chain),
        }
    }

    fn mix_hash(&mut self, data: [&[u8]; 2]) {
        let [first, second] = data;
        self.hash = hash([&self.hash, first, second]);
    }

    /// An ephemeral public key goes into both.
    fn mix_point(&mut self, point: &[u8; 32]) {
        self.mix_hash([point, &[]]);
        self.chain = kdf1(&self.chain, point);
    }

    fn mix_secret(&mut self, secret: &[u8; 32]) {
        self.chain = kdf1(&self.chain, secret);
    }

    fn mix_key(&mut self, secret: &[u8; 32]) -> Secret {
        let (chain, key) = kdf2(&self.chain, secret);
        self.chain = chain;
        key
    }

    fn mix_psk(&mut self, psk: &Secret) -> Secret {
        let (chain, mixed, key) = kdf3(&self.chain, &**psk);
        self.chain = chain;
        self.mix_hash([&*mixed, &[]]);
        key
    }

    fn seal(&mut self, key: &Secret, buffer: &mut [u8]) -> Result<[u8; 16], DropReason> {
        let tag = seal(key, &self.hash, buffer)?;
        self.mix_hash([buffer, &tag]);
        Ok(tag)
    }

    fn open(&mut self, key: &Secret, buffer: &mut [u8], tag: &[u8; 16]) -> Result<(), DropReason> {
        let mut sealed = [0; 32];
        let sealed = sealed
            .get_mut(..buffer.len())
            .ok_or(DropReason::Malformed)?;
        sealed.copy_from_slice(buffer);
        open(key, &self.hash, buffer, tag)?;
        self.mix_hash([sealed, tag]);
        Ok(())
    }

    /// The keys of the session: what the initiator seals with, and what it opens with.
    fn split(self) -> (Secret, Secret) {
        kdf2(&self.chain, &[])
    }
}

const CONSTRUCTION: &[u8] = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";

/// The next `N` bytes.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], DropReason> {
    let (taken, left) = rest.split_first_chunk().ok_or(DropReason::Malformed)?;
    *rest = left;
    Ok(*taken)
}

/// Writes the parts one after the other to the start of `dst`.
pub(super) fn write<const N: usize>(dst: &mut [u8], parts: [&[u8]; N]) -> Result<(), DropReason> {
    let mut rest = dst;
    for part in parts {
        let (place, left) = rest
            .split_at_mut_checked(part.len())
            .ok_or(DropReason::Oversized)?;
        place.copy_from_slice(part);
        rest = left;
    }
    Ok(())
}
