//! The local control socket: HTTP and JSON on a unix socket. The file's mode decides who may
//! read; changing needs a peer that is root, or the user the role runs as ([`MayChange`]).

mod bounded;
mod call;
mod metrics;
mod question;
mod ready;
mod routes;
mod serving;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::{
        fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use axum::{
    Json,
    extract::{ConnectInfo, FromRequestParts, connect_info::Connected},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    serve::IncomingStream,
};
use kedge_control::{Document, Kind};
use kedge_core::{Code, Coded, Fix, Problem};
use rustix::process::{Uid, geteuid};
use serde::Serialize;
use tokio::net::UnixListener;

use self::bounded::Bounded;
pub use self::{
    call::{CallError, Reply, call},
    metrics::{Exposed, MetricsFile},
    question::{Answers, Ask, Asks, questions, unknown},
    routes::routes,
    serving::Serving,
};

/// A bound control socket. The lock beside it is held as long as this lives; the socket file is
/// removed when it is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    place: Place,
}

/// The socket's file, ours as long as this lives.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    // Held, never read: the kernel frees it with the process, however that ends.
    _lock: File,
}

/// The socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process serves it.
    #[error("another process serves {}", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The file system refused it.
    #[error("cannot bind {}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Socket {
    /// Binds the socket: 0660 and group `kedge` where that group exists, else 0600. A stale
    /// socket is replaced.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// Another process serves the socket, or the file system refuses it.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let failed = |source| BindError::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(dir) = path.parent() {
            // 0755: whoever may read the socket must be able to reach it.
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(dir)
                .map_err(failed)?;
        }
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.with_extension("lock"))
            .map_err(failed)?;
        let in_use = || BindError::InUse {
            path: path.to_owned(),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(in_use()),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        if UnixStream::connect(path).is_ok() {
            return Err(in_use());
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let place = Place {
            path: path.to_owned(),
            _lock: lock,
        };
        restrict(path).map_err(failed)?;
        Ok(Self { listener, place })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // We hold the lock, so it is ours; a file left behind is replaced by the next start.
        let _ = fs::remove_file(&self.path);
    }
}

fn restrict(path: &Path) -> io::Result<()> {
    let group = group_id(&fs::read_to_string("/etc/group").unwrap_or_default(), GROUP);
    let mode = match group.map(|gid| chown(path, None, Some(gid))) {
        Some(Ok(())) => 0o660,
        _ => 0o600,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn group_id(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name)
            .then(|| fields.nth(1)?.parse().ok())
            .flatten()
    })
}

/// Who is at the other end, as the kernel says (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user, unknown when the kernel does not say.
    pub uid: Option<u32>,
    /// The process.
    pub pid: Option<i32>,
}

impl Peer {
    /// Whether it may change a role that runs as this user. That user could do as much without asking:
    /// the role's memory and files are its own.
    fn may_change(self, role: Uid) -> bool {
        self.uid
            .map(Uid::from_raw)
            .is_some_and(|peer| peer.is_root() || peer == role)
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        let credentials = stream.io().stream().peer_cred().ok();
        Self {
            uid: credentials.map(|peer| peer.uid()),
            pid: credentials.and_then(|peer| peer.pid()),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let ConnectInfo(peer) = parts
            .extensions
            .get::<ConnectInfo<Self>>()
            .copied()
            .unwrap_or(ConnectInfo(Self {
                uid: None,
                pid: None,
            }));
        Ok(peer)
    }
}

/// A handler that takes this runs for root, and for the user its role runs as: a manager in a Pod is
/// not root, and neither is who types a command there.
#[derive(Clone, Copy, Debug)]
pub struct MayChange(
    /// The peer.
    pub Peer,
);

impl<S: Send + Sync> FromRequestParts<S> for MayChange {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let peer = Peer::from_request_parts(parts, state).await?;
        if peer.may_change(geteuid()) {
            return Ok(Self(peer));
        }
        let who = peer
            .uid
            .map_or_else(|| "an unknown user".to_owned(), |uid| format!("uid {uid}"));
        Err(Failure(
            Problem::new(
                Code::HostSocketPermission,
                "only root and the role's own user may do this to a running role",
            )
            .evidence(format!("the request {} came from {who}", parts.uri.path()))
            .consequence("nothing was changed")
            .fix(Fix::text("run the command as root")),
        ))
    }
}

/// An answer: the body in its [`Document`].
#[derive(Clone, Debug)]
pub struct Answer<T>(
    /// The body.
    pub T,
);

impl<T: Kind + Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        Json(Document::new(self.0)).into_response()
    }
}

/// A failure: the problem in its [`Document`], with the HTTP status that fits its code.
#[derive(Clone, Debug)]
pub struct Failure(
    /// The problem.
    pub Problem,
);

impl<E: Coded> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.problem())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.code {
            Code::VipUnknown | Code::TunUnknown | Code::ApiNotFound => StatusCode::NOT_FOUND,
            Code::HostSocketPermission | Code::ApiForbidden => StatusCode::FORBIDDEN,
            Code::ApiMalformed
            | Code::ConfigSyntax
            | Code::ConfigUnknownKey
            | Code::ConfigOutOfRange
            | Code::ConfigEnvironment
            | Code::ConfigTooLarge
            | Code::ConfigRule
            | Code::ConfigDuplicateVrid
            | Code::EnrolTokenScope => StatusCode::BAD_REQUEST,
            Code::ApiConflict | Code::EnrolNameTaken | Code::VipOrderRefused => {
                StatusCode::CONFLICT
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(Document::new(self.0))).into_response()
    }
}

async fn no_such_route(method: axum::http::Method, uri: axum::http::Uri) -> Failure {
    Failure(
        Problem::new(
            Code::ApiNotFound,
            format!("this role does not answer {method} {}", uri.path()),
        )
        .consequence("nothing was done")
        .fix(
            Fix::text("compare the versions of the command line and of the running role")
                .command("kedge version; kedge status"),
        ),
    )
}

/// What was refused before a handler saw it (a path that is no text, a body that is no JSON) has
/// plain words for an answer: they become a problem like every other.
async fn as_document(response: Response) -> Response {
    let status = response.status();
    let refused = status.is_client_error() || status.is_server_error();
    if !refused || is_json(response.headers()) {
        return response;
    }
    let words = axum::body::to_bytes(response.into_body(), WORDS_AT_MOST).await;
    let words = words.unwrap_or_default();
    let problem = Problem::new(
        Code::ApiMalformed,
        "the request makes no sense to this role",
    )
    .evidence(String::from_utf8_lossy(&words).escape_debug().to_string())
    .consequence("nothing was done")
    .fix(
        Fix::text("compare the versions of the command line and of the running role")
            .command("kedge version; kedge status"),
    );
    (status, Json(Document::new(problem))).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

impl Coded for BindError {
    fn problem(&self) -> Problem {
        match self {
            Self::InUse { path } => Problem::new(Code::HostSocketInUse, self.to_string())
                .object(path.display().to_string())
                .consequence("this role does not start a second time")
                .fix(
                    Fix::text("stop the other process, or give this one its own --root")
                        .command(format!("fuser -v {}", path.display())),
                ),
            Self::Io { path, source } => {
                let code = if source.kind() == io::ErrorKind::PermissionDenied {
                    Code::HostSocketPermission
                } else {
                    Code::HostStateNotPersisted
                };
                Problem::new(code, self.to_string())
                    .object(path.display().to_string())
                    .evidence(source.to_string())
                    .consequence("the role cannot be asked for its status and does not start")
                    .fix(
                        Fix::text("start the role as root, or as the user the folder belongs to")
                            .command(format!(
                                "ls -ld {}",
                                path.parent().unwrap_or(path).display()
                            )),
                    )
            }
        }
    }
}

const GROUP: &str = "kedge";
/// People and their scripts, many times over.
const PLACES: usize = 128;
/// Far longer than any answer takes.
const IDLE: Duration = Duration::from_secs(30);
const WORDS_AT_MOST: usize = 1024;

#[cfg(test)]
mod tests;
