//! TCP-AO (RFC 5925): segments that are signed with a key both sides have. Linux has it from 6.7 on, where
//! it was built with `CONFIG_TCP_AO`.

use std::{fmt, io, net::IpAddr, os::fd::BorrowedFd};

use rustix::io::Errno;

use crate::{
    peer_socket::{is, socket_address},
    sys::packet::set_option,
};

/// A key of TCP-AO, as both sides have it configured (RFC 5925 section 3.1: a master key tuple).
#[derive(Clone, Copy)]
pub struct AoKey<'a> {
    /// The key, of 1 to 80 bytes.
    pub key: &'a [u8],
    /// The number by which segments that are sent name it; that of the neighbour's `receive_id`.
    pub send_id: u8,
    /// The number by which those of the neighbour name it.
    pub receive_id: u8,
    /// How segments are signed.
    pub algorithm: AoAlgorithm,
}

/// How segments are signed (RFC 5926).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AoAlgorithm {
    /// HMAC-SHA-1-96.
    #[default]
    HmacSha1,
    /// AES-128-CMAC-96.
    AesCmac,
}

/// The kernel took no key of TCP-AO.
#[derive(Debug, thiserror::Error)]
pub enum AoError {
    /// It has no TCP-AO.
    #[error("this kernel has no TCP-AO")]
    Missing {
        /// What it answered.
        #[source]
        source: io::Error,
    },
    /// It does not take this key.
    #[error("the kernel does not take the key of TCP-AO")]
    Refused {
        /// What it answered.
        #[from]
        source: io::Error,
    },
}

impl fmt::Debug for AoKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AoKey")
            .field("send_id", &self.send_id)
            .field("receive_id", &self.receive_id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl AoAlgorithm {
    /// As the kernel's cryptography has it (`Documentation/networking/tcp_ao.rst`).
    const fn name(self) -> &'static [u8] {
        match self {
            Self::HmacSha1 => b"hmac(sha1)",
            Self::AesCmac => b"cmac(aes128)",
        }
    }
}

/// Has segments to and from a neighbour be signed. What comes unsigned is dropped from then on.
///
/// # Errors
///
/// The kernel has no TCP-AO, not this algorithm, or there is such a key already.
pub(crate) fn add(socket: BorrowedFd<'_>, peer: IpAddr, key: &AoKey<'_>) -> Result<(), AoError> {
    let add = Add::new(peer, key)?;
    set_option(socket, libc::IPPROTO_TCP, TCP_AO_ADD_KEY, &add).map_err(|source| {
        let is_missing = is(&source, Errno::NOPROTOOPT) || is(&source, Errno::OPNOTSUPP);
        if is_missing {
            AoError::Missing { source }
        } else {
            AoError::Refused { source }
        }
    })
}

/// The kernel's `struct tcp_ao_add` (`linux/tcp.h`).
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Add {
    /// A `sockaddr_storage`.
    address: [u8; 128],
    algorithm: [u8; 64],
    ifindex: i32,
    /// `set_current` and `set_rnext` in its lowest bits.
    flags: u32,
    reserved: u16,
    prefix: u8,
    send_id: u8,
    receive_id: u8,
    mac_length: u8,
    key_flags: u8,
    key_length: u8,
    key: [u8; MAX_KEY],
}

impl Add {
    fn new(peer: IpAddr, of: &AoKey<'_>) -> io::Result<Self> {
        if of.key.is_empty() || of.key.len() > MAX_KEY {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (address, prefix) = socket_address(peer);
        let mut add = Self {
            address,
            algorithm: [0; 64],
            ifindex: 0,
            flags: 0,
            reserved: 0,
            prefix,
            send_id: of.send_id,
            receive_id: of.receive_id,
            mac_length: MAC,
            key_flags: 0,
            key_length: u8::try_from(of.key.len()).unwrap_or_default(),
            key: [0; MAX_KEY],
        };
        let name = of.algorithm.name().iter();
        add.algorithm
            .iter_mut()
            .zip(name)
            .for_each(|(to, from)| *to = *from);
        add.key
            .iter_mut()
            .zip(of.key)
            .for_each(|(to, from)| *to = *from);
        Ok(add)
    }
}

/// From `linux/tcp.h`; the libc crate lacks it.
const TCP_AO_ADD_KEY: i32 = 38;
/// `TCP_AO_MAXKEYLEN`.
const MAX_KEY: usize = 80;
/// 96 bits (RFC 5926 section 3.2).
const MAC: u8 = 12;

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use linux_raw_sys::net::{TCP_AO_ADD_KEY as NUMBER, TCP_AO_MAXKEYLEN, tcp_ao_add};

    use super::*;

    const KEY: AoKey<'static> = AoKey {
        key: b"secret",
        send_id: 3,
        receive_id: 4,
        algorithm: AoAlgorithm::AesCmac,
    };

    /// Its bindings are made from the kernel's own headers.
    #[test]
    fn the_structure_is_laid_out_as_the_kernels_header_has_it() {
        assert_eq!(TCP_AO_ADD_KEY.cast_unsigned(), NUMBER);
        assert_eq!(u32::try_from(MAX_KEY).unwrap(), TCP_AO_MAXKEYLEN);
        assert_eq!((size_of::<Add>(), align_of::<Add>()), (288, 8));
        assert_eq!(size_of::<Add>(), size_of::<tcp_ao_add>());
        assert_eq!(offset_of!(Add, address), offset_of!(tcp_ao_add, addr));
        assert_eq!(offset_of!(Add, algorithm), offset_of!(tcp_ao_add, alg_name));
        assert_eq!(offset_of!(Add, ifindex), offset_of!(tcp_ao_add, ifindex));
        assert_eq!(offset_of!(Add, flags), offset_of!(tcp_ao_add, _bitfield_1));
        assert_eq!(offset_of!(Add, reserved), offset_of!(tcp_ao_add, reserved2));
        assert_eq!(offset_of!(Add, prefix), offset_of!(tcp_ao_add, prefix));
        assert_eq!(offset_of!(Add, send_id), offset_of!(tcp_ao_add, sndid));
        assert_eq!(offset_of!(Add, receive_id), offset_of!(tcp_ao_add, rcvid));
        assert_eq!(offset_of!(Add, mac_length), offset_of!(tcp_ao_add, maclen));
        assert_eq!(offset_of!(Add, key_flags), offset_of!(tcp_ao_add, keyflags));
        assert_eq!(offset_of!(Add, key_length), offset_of!(tcp_ao_add, keylen));
        assert_eq!(offset_of!(Add, key), offset_of!(tcp_ao_add, key));
    }

    #[test]
    fn a_key_is_filled_in_and_never_shown() {
        let add = Add::new("192.0.2.1".parse().unwrap(), &KEY).unwrap();
        assert_eq!(add.address[4..8], [192, 0, 2, 1]);
        assert_eq!((add.prefix, add.send_id, add.receive_id), (32, 3, 4));
        assert_eq!((add.key_length, &add.key[..7]), (6, &b"secret\0"[..]));
        assert_eq!(add.algorithm[..13], *b"cmac(aes128)\0");
        assert!(!format!("{KEY:?}").contains("secret"));
        for key in [&[][..], &[7; 81]] {
            let none = AoKey { key, ..KEY };
            assert!(Add::new("::1".parse().unwrap(), &none).is_err());
        }
    }
}
