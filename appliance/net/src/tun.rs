//! TUN devices: a descriptor for the packets, a [`Interface`] for the kernel's side of it.

mod interface;
mod offload;

use std::{
    fs::OpenOptions,
    io::{self, IoSlice},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
};

use kedge_core::{Code, Coded, Fix, Problem};
use rustix::io::Errno;

pub(crate) use self::interface::index;
pub use self::{
    interface::{Interface, InterfaceError, Lead, clear_leftovers},
    offload::{Climbed, Rung},
};
use crate::{privilege, sys};

/// An open TUN device. The interface goes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    name: String,
    /// It was made by somebody else, without headers: the kernel knows packets alone.
    bare: bool,
}

/// A TUN device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// The name cannot be an interface's.
    #[error("`{0}` cannot name an interface: 1 to 15 characters, no `/`, no space")]
    Name(String),
    /// `/dev/net/tun` is not there.
    #[error("cannot open {DEVICE}")]
    Missing(#[source] io::Error),
    /// Somebody else has an interface of that name.
    #[error("an interface called `{name}` exists already")]
    NameTaken {
        /// The name.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// We may not.
    #[error("the kernel refused the TUN device `{name}`")]
    Refused {
        /// The name.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl Tun {
    /// Makes the interface `name` in this thread's network namespace.
    ///
    /// # Errors
    ///
    /// There is no TUN device, no privilege, or the name is taken.
    pub fn open(name: &str) -> Result<Self, TunError> {
        Self::attach(name, false)
    }

    /// The same for an interface that outlives its descriptor and is taken over by whoever opens it next.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); the name is taken while another process has it open.
    pub fn open_lasting(name: &str) -> Result<Self, TunError> {
        Self::attach(name, true)
    }

    fn attach(name: &str, lasts: bool) -> Result<Self, TunError> {
        if !is_name(name) {
            return Err(TunError::Name(name.escape_debug().take(40).collect()));
        }
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(DEVICE)
            .map_err(|source| match source.kind() {
                io::ErrorKind::PermissionDenied => TunError::Refused {
                    name: name.to_owned(),
                    source,
                },
                _ => TunError::Missing(source),
            })?;
        let fd = OwnedFd::from(device);
        let attached = sys::tun::attach(fd.as_fd(), name, lasts);
        let attached = attached.and_then(|()| match lasts {
            true => sys::tun::persist(fd.as_fd()),
            false => Ok(()),
        });
        let attached = attached.and_then(|()| sys::tun::set_header_length(fd.as_fd(), HEADER_SIZE));
        attached.map_err(|source| {
            let name = name.to_owned();
            let taken = [Errno::BUSY, Errno::EXIST, Errno::INVAL].map(Errno::raw_os_error);
            if source
                .raw_os_error()
                .is_some_and(|errno| taken.contains(&errno))
            {
                TunError::NameTaken { name, source }
            } else {
                TunError::Refused { name, source }
            }
        })?;
        Ok(Self {
            fd,
            name: name.to_owned(),
            bare: false,
        })
    }

    /// Takes over a TUN device that somebody else opened, made without packet information; with
    /// headers for offloads or without.
    ///
    /// # Errors
    ///
    /// The descriptor is no such device's.
    pub fn adopt(fd: OwnedFd) -> Result<Self, TunError> {
        let refused = |source| TunError::Refused {
            name: "that was handed over".to_owned(),
            source,
        };
        let (name, flags) = sys::tun::attached(fd.as_fd()).map_err(refused)?;
        let flags = i32::from(flags);
        let kind = libc::IFF_TUN | libc::IFF_NO_PI;
        if flags & (kind | libc::IFF_TAP) != kind {
            return Err(refused(Errno::INVAL.into()));
        }
        let set = rustix::fs::fcntl_getfl(&fd)
            .and_then(|flags| rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK));
        set.map_err(|error| refused(error.into()))?;
        let bare = flags & libc::IFF_VNET_HDR == 0;
        if !bare {
            sys::tun::set_header_length(fd.as_fd(), HEADER_SIZE).map_err(refused)?;
        }
        Ok(Self { fd, name, bare })
    }

    /// The same interface for another thread: what either takes or gives is of the same queue.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            name: self.name.clone(),
            bare: self.bare,
        })
    }

    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes one packet that the kernel wants to send, or a super packet: a `virtio_net_hdr` of 24
    /// bytes and the packet behind it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none; see [`is_gone`](Self::is_gone).
    pub fn read(&self, frame: &mut [u8]) -> io::Result<usize> {
        if !self.bare {
            return Ok(rustix::io::read(&self.fd, frame)?);
        }
        let (header, packet) = frame.split_at_mut_checked(HEADER).unwrap_or_default();
        header.fill(0);
        Ok(rustix::io::read(&self.fd, packet)? + header.len())
    }

    /// Gives one packet or super packet to the kernel, as if it had arrived: `parts` are a
    /// `virtio_net_hdr` of 24 bytes and the packet behind it.
    ///
    /// # Errors
    ///
    /// The kernel's answer, such as `EIO` while the interface is down.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let parts = match parts {
            [_, packet @ ..] if self.bare => packet,
            parts => parts,
        };
        rustix::io::writev(&self.fd, parts)?;
        Ok(())
    }

    /// Whether the kernel takes and gives single packets alone.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.bare
    }

    /// Whether an error of [`read`](Self::read) means that somebody deleted the interface.
    #[must_use]
    pub fn is_gone(error: &io::Error) -> bool {
        error.raw_os_error() == Some(Errno::BADFD.raw_os_error())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Coded for TunError {
    fn problem(&self) -> Problem {
        let consequence = "there is no tunnel; everything else of this host works on";
        match self {
            Self::Name(_) => Problem::new(
                Code::TunDeviceMissing,
                "the tunnel's interface name cannot be used",
            )
            .evidence(self.to_string())
            .fix(Fix::text("choose a shorter name, such as kedge0")),
            Self::Missing(_) => Problem::new(
                Code::TunDeviceMissing,
                format!("the TUN device {DEVICE} cannot be opened"),
            )
            .caused_by(self)
            .fix(
                Fix::text(
                    "load the kernel's tun module; in a container pass the device in \
                     (--device /dev/net/tun)",
                )
                .command("sudo modprobe tun"),
            ),
            Self::NameTaken { name, .. } => Problem::new(
                Code::TunDeviceMissing,
                format!("an interface called {name} exists already"),
            )
            .caused_by(self)
            .fix(
                Fix::text("see whose it is: another Kedge may be running, or choose another name")
                    .command(format!("ip -d link show {name}")),
            ),
            Self::Refused { name, source } => {
                let what = format!("the kernel refused the TUN device {name}");
                privilege::problem(Code::TunDeviceMissing, what, source)
            }
        }
        .consequence(consequence)
    }
}

/// Whether the kernel takes this as an interface's name (`dev_valid_name`); `%` would be a
/// template.
fn is_name(name: &str) -> bool {
    let printable = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
    (1..libc::IFNAMSIZ).contains(&name.len())
        && name != "."
        && name != ".."
        && name.bytes().all(printable)
}

/// The length of a `virtio_net_hdr` that has room for tunnels, in bytes.
const HEADER: usize = 24;
/// The same as the kernel takes it.
const HEADER_SIZE: libc::c_int = 24;

const DEVICE: &str = "/dev/net/tun";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_would_refuse_is_refused_before() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "sixteen-letters-",
            "kedge%d",
            "a:b",
            "ä",
        ] {
            let error = Tun::open(name).unwrap_err();
            assert!(matches!(error, TunError::Name(_)), "{name:?}: {error}");
            assert_eq!(error.problem().code, Code::TunDeviceMissing);
        }
        for name in ["kedge0", "a", "fifteen-letters"] {
            assert!(is_name(name), "{name}");
        }
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        let source = || io::Error::from_raw_os_error(libc::EPERM);
        let missing = TunError::Missing(io::Error::from_raw_os_error(libc::ENOENT)).problem();
        assert_eq!(missing.code, Code::TunDeviceMissing);
        assert_eq!(missing.evidence.len(), 2);
        assert_eq!(missing.fix.unwrap().command.unwrap(), "sudo modprobe tun");
        let refused = TunError::Refused {
            name: "kedge0".into(),
            source: source(),
        }
        .problem();
        assert_eq!(refused.code, Code::NetPermission);
        let taken = TunError::NameTaken {
            name: "kedge0".into(),
            source: source(),
        }
        .problem();
        assert!(taken.what.contains("kedge0"));
    }
}
