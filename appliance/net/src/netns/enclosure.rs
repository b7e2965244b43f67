//! A network namespace at a path: it outlives the process that made it, and nothing leads into it but the
//! interface that is made there.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use kedge_core::{Code, Coded, Fix, Problem};

use super::{NetnsError, bind_new, run, unbind};
use crate::{
    link::{LinkError, Links, sysctl},
    nft::{self, NftError},
};

/// A network namespace at a path. Dropped it stays.
#[derive(Debug)]
pub struct Enclosure {
    path: PathBuf,
    file: File,
}

/// Why nobody can be enclosed.
#[derive(Debug, thiserror::Error)]
pub enum EnclosureError {
    /// There is no such namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Its loopback or what it forwards cannot be set.
    #[error("the network namespace {path} cannot be set up")]
    Link {
        /// Where it is.
        path: String,
        /// Why.
        #[source]
        source: LinkError,
    },
    /// Its rules are not in force.
    #[error("the network namespace {path} has no rules")]
    Nft {
        /// Where it is.
        path: String,
        /// Why.
        #[source]
        source: NftError,
    },
}

impl Enclosure {
    /// The namespace at `path`, made if there is none: loopback up, and rules by which it talks through
    /// the interface `ifname` alone, to whom it called itself.
    ///
    /// # Errors
    ///
    /// Without privilege, or without `nft`: whoever is not enclosed is not let in.
    pub fn open(path: &Path, ifname: &str) -> Result<Self, EnclosureError> {
        let enclosure = Self {
            file: bind(path)?,
            path: path.to_owned(),
        };
        let forwards =
            FORWARDING.map(|key| fs::read_to_string(format!("/proc/sys/net/{key}")).ok());
        let shown = || path.display().to_string();
        enclosure.run(|| {
            let refused = |source| EnclosureError::Link {
                path: shown(),
                source,
            };
            nft::apply_text(&rules(ifname)).map_err(|source| EnclosureError::Nft {
                path: shown(),
                source,
            })?;
            Links::open()
                .and_then(|mut links| links.up("lo"))
                .map_err(refused)?;
            for (key, value) in FORWARDING.iter().zip(&forwards) {
                // Where nobody may say, what the kernel gave it stays: the rules hold either way.
                let said = value.as_ref().map(|value| sysctl(key, value.trim()));
                if let Some(Err(error)) = said {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(key, error, "a network namespace forwards as it began");
                }
            }
            Ok::<(), EnclosureError>(())
        })??;
        Ok(enclosure)
    }

    /// The namespace that somebody made at `path`.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn at(path: &Path) -> Result<Self, NetnsError> {
        let refused = |source| NetnsError::Open {
            name: path.display().to_string(),
            source,
        };
        if !is_namespace(path) {
            return Err(refused(io::ErrorKind::NotFound.into()));
        }
        Ok(Self {
            file: File::open(path).map_err(refused)?,
            path: path.to_owned(),
        })
    }

    /// Runs a job inside, on a thread of its own, and waits for it. Sockets that it makes stay inside.
    ///
    /// # Errors
    ///
    /// Without privilege.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        run(&self.file, &self.path.to_string_lossy(), job)
    }

    /// Removes the name at `path`. The namespace ends with the last socket in it.
    ///
    /// # Errors
    ///
    /// Without privilege.
    pub fn remove(path: &Path) -> Result<(), NetnsError> {
        let refused = |source| NetnsError::Remove {
            name: path.display().to_string(),
            source,
        };
        match unbind(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused(error)),
            _ => Ok(()),
        }
    }

    /// The names in a directory of namespaces; none where it does not exist.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn names(directory: &Path) -> io::Result<Vec<OsString>> {
        match fs::read_dir(directory) {
            Ok(entries) => Ok(entries
                .filter_map(|entry| Some(entry.ok()?.file_name()))
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Runs a job in the namespace that somebody made at `path`, or in this thread's own.
///
/// # Errors
///
/// The job's, or the namespace cannot be entered.
pub fn within<T: Send>(
    path: Option<&Path>,
    job: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let Some(path) = path else { return job() };
    let done = Enclosure::at(path).and_then(|inside| inside.run(job));
    done.map_err(io::Error::other)?
}

impl Coded for EnclosureError {
    fn problem(&self) -> Problem {
        let problem = match self {
            Self::Netns(error) => {
                let problem = error.problem();
                let may = Fix::text(
                    "give it CAP_SYS_ADMIN, and let its unit mount and make network namespaces",
                );
                match problem.code == Code::NetPermission {
                    true => problem.fix(may),
                    false => problem,
                }
            }
            Self::Link { source, .. } => source.problem(),
            Self::Nft { source, .. } => source.problem(),
        };
        problem
            .evidence(self.to_string())
            .consequence("nobody is let in: what belongs there is not served")
    }
}

/// The namespace's file. One that a crash or a restart in another mount namespace left plain is made
/// one again.
fn bind(path: &Path) -> Result<File, NetnsError> {
    let refused = |source| NetnsError::Create {
        name: path.display().to_string(),
        source,
    };
    if !is_namespace(path) {
        if let Some(directory) = path.parent() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(directory).map_err(refused)?;
        }
        if path.exists() {
            fs::remove_file(path).map_err(refused)?;
        }
        bind_new(path).map_err(refused)?;
    }
    File::open(path).map_err(refused)
}

fn is_namespace(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type == NSFS)
}

/// What passes: the interface alone, and on the way in nobody who begins a connection. A namespace has no
/// other interface, so that these rules are the second lock and not the first.
fn rules(ifname: &str) -> String {
    let own = format!("iifname \"{ifname}\"");
    format!(
        "add table inet {TABLE}\n\
         delete table inet {TABLE}\n\
         table inet {TABLE} {{\n\
         chain input {{ type filter hook input priority 0; policy drop;\n\
         iif \"lo\" accept\n\
         {own} tcp flags & (syn | ack) == syn counter drop\n\
         {own} meta l4proto {{ tcp, udp, icmp, ipv6-icmp }} accept\n\
         }}\n\
         chain forward {{ type filter hook forward priority 0; policy drop;\n\
         {own} oifname \"{ifname}\" accept\n\
         }}\n\
         chain output {{ type filter hook output priority 0; policy drop;\n\
         oif \"lo\" accept\n\
         oifname \"{ifname}\" accept\n\
         }}\n\
         }}\n"
    )
}

/// Whether hosts of one mesh reach each other through the gateway is its own namespace's to say.
const FORWARDING: [&str; 2] = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"];

const TABLE: &str = "kedge_tenant";

/// `NSFS_MAGIC`.
const NSFS: rustix::fs::FsWord = 0x6e73_6673;
