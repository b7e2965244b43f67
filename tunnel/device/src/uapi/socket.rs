//! The socket that tools look for: `/var/run/wireguard/IFNAME.sock`.

use std::{
    fs::{self, DirBuilder},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            fs::{DirBuilderExt as _, MetadataExt as _},
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

use kedge_core::{Code, Coded, Fix, Problem};
use kedge_net::process;

/// A bound socket. Its file goes when this is dropped, unless it is somebody else's by then.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

/// The socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A process serves it.
    #[error("somebody serves {path}")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The file or its folder.
    #[error("cannot serve {path}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl Socket {
    /// Binds the socket of the interface `ifname`, for its owner alone. One that nobody serves is
    /// replaced.
    ///
    /// # Errors
    ///
    /// Somebody serves it, or the folder cannot be written.
    pub fn bind(ifname: &str) -> Result<Self, SocketError> {
        Self::bind_in(Path::new(FOLDER), ifname)
    }

    fn bind_in(folder: &Path, ifname: &str) -> Result<Self, SocketError> {
        let path = folder.join(format!("{ifname}.sock"));
        if UnixStream::connect(&path).is_ok() {
            return Err(SocketError::InUse { path });
        }
        let bind = || {
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(folder)?;
            // Whoever finds it is answered: `wg` takes one that nobody listens at yet for a dead one.
            let made = folder.join(format!(".{ifname}.{}", std::process::id()));
            remove(&made)?;
            let listener = process::listen_privately(&SocketAddr::from_pathname(&made)?)?;
            let file = fs::symlink_metadata(&made)?;
            if let Err(error) = fs::rename(&made, &path) {
                let _ = remove(&made);
                return Err(error);
            }
            Ok((listener, (file.dev(), file.ino())))
        };
        match bind() {
            Ok((listener, file)) => Ok(Self {
                listener,
                path,
                file,
            }),
            Err(source) => Err(SocketError::Io { path, source }),
        }
    }

    /// Takes over a socket that somebody else bound where tools look for that of `ifname`.
    ///
    /// # Errors
    ///
    /// It is none, or not there.
    pub fn adopt(fd: OwnedFd, ifname: &str) -> Result<Self, SocketError> {
        let path = Path::new(FOLDER).join(format!("{ifname}.sock"));
        let listener = UnixListener::from(fd);
        let file = listener
            .local_addr()
            .and_then(|_| fs::symlink_metadata(&path));
        match file {
            Ok(file) => Ok(Self {
                listener,
                file: (file.dev(), file.ino()),
                path,
            }),
            Err(source) => Err(SocketError::Io { path, source }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its file is still where tools look for it: deleting it is how they end a device.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let file = fs::symlink_metadata(&self.path);
        file.is_ok_and(|file| (file.dev(), file.ino()) == self.file)
    }

    /// The listener, for a runtime.
    pub(super) fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        let listener = UnixListener::from(self.listener.as_fd().try_clone_to_owned()?);
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Coded for SocketError {
    fn problem(&self) -> Problem {
        match self {
            Self::InUse { path } => Problem::new(Code::HostSocketInUse, self.to_string())
                .object(path.display().to_string())
                .consequence("the device is not made a second time")
                .fix(
                    Fix::text("see which process serves the device, or choose another name")
                        .command(format!("fuser -v {}", path.display())),
                ),
            Self::Io { path, source } => {
                let code = match source.kind() {
                    io::ErrorKind::PermissionDenied => Code::HostSocketPermission,
                    _ => Code::SysUnexpected,
                };
                Problem::new(code, self.to_string())
                    .object(path.display().to_string())
                    .evidence(source.to_string())
                    .consequence("no tool can configure the device, so it is not made")
                    .fix(Fix::text("start it as root").command(format!("ls -ld {FOLDER}")))
            }
        }
    }
}

/// Where every tool looks.
const FOLDER: &str = "/var/run/wireguard";

/// Removes a file that may be there.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A folder of its own, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("kedge-uapi-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_live_socket_is_refused_and_a_dead_one_replaced() {
        let folder = Folder::new("live");
        let first = Socket::bind_in(&folder.0, "wg0").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.0), mode(first.path())), (0o755, 0o600));
        let error = Socket::bind_in(&folder.0, "wg0").unwrap_err();
        assert_eq!(error.problem().code, Code::HostSocketInUse);
        let path = first.path().to_owned();
        assert!(first.is_there());
        drop(first);
        assert!(!path.exists());
        // One whose process was killed stays behind.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let second = Socket::bind_in(&folder.0, "wg0").unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!second.is_there());
        let third = Socket::bind_in(&folder.0, "wg0").unwrap();
        assert!(!second.is_there() && third.is_there());
        drop(second);
        assert!(third.is_there(), "it is not the second one's to remove");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told() {
        let error = Socket::bind_in(Path::new("/proc/none"), "wg0").unwrap_err();
        assert!(matches!(error, SocketError::Io { .. }), "{error}");
    }
}
