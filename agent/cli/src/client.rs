//! Talking to a running role over its control socket.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::{Method, StatusCode};
use kedge_control::{CLI_VERSION, Kind};
use kedge_core::{Code, Fix, Problem};
use kedge_host::{
    Role, Root,
    local::{CallError, call},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{runtime, time::timeout};

use crate::exit::Exit;

/// A request that did not work, and how the command ends because of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What to tell.
    pub problem: Problem,
    /// How to end.
    pub exit: Exit,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self {
            exit: Exit::of(&problem),
            problem,
        }
    }
}

/// A role's socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    role: Option<Role>,
    root: Option<PathBuf>,
    limit: Duration,
}

/// An answer, as it came and as it is understood.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// The whole document: newer roles may say more than this command line knows.
    pub raw: Value,
    /// The body.
    pub body: T,
}

impl<T> Answer<T> {
    /// The same document, shown in another way.
    pub(crate) fn shown_as<U>(self, other: impl FnOnce(T) -> U) -> Answer<U> {
        Answer {
            raw: self.raw,
            body: other(self.body),
        }
    }
}

impl Client {
    /// The socket of a role.
    #[must_use]
    pub fn of_role(root: &Root, role: Role, limit: Duration) -> Self {
        Self {
            socket: root.socket(role),
            role: Some(role),
            root: (!root.is_system()).then(|| root.path().to_owned()),
            limit,
        }
    }

    /// A socket by its path.
    #[must_use]
    pub fn of_path(socket: &Path, limit: Duration) -> Self {
        Self {
            socket: socket.to_owned(),
            role: None,
            root: None,
            limit,
        }
    }

    /// Asks for a document of one kind.
    ///
    /// # Errors
    ///
    /// The role cannot be reached, refuses, or answers something else.
    pub fn get<T: Kind + DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.understood(self.request(Method::GET, path, None)?)
    }

    /// Asks for a document of any kind.
    ///
    /// # Errors
    ///
    /// As for [`Client::get`].
    pub fn get_raw(&self, path: &str) -> Result<Value, Failure> {
        self.request(Method::GET, path, None)
    }

    /// Sends a body and reads a document.
    ///
    /// # Errors
    ///
    /// As for [`Client::get`].
    pub fn post<B: Serialize, T: Kind + DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<Answer<T>, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Problem::new(Code::SysUnexpected, error.to_string()))?;
        self.understood(self.request(Method::POST, path, Some(body))?)
    }

    /// Reads a document as the kind it should be.
    pub(crate) fn understood<T: Kind + DeserializeOwned>(
        &self,
        raw: Value,
    ) -> Result<Answer<T>, Failure> {
        let kind = raw.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind != T::KIND {
            return Err(self.skew(&format!("expected a {}, got `{kind}`", T::KIND)));
        }
        match serde_json::from_value(raw.clone()) {
            Ok(body) => Ok(Answer { raw, body }),
            Err(error) => Err(self.skew(&error.to_string())),
        }
    }

    fn request(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Value, Failure> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Problem::new(Code::SysUnexpected, error.to_string()))?;
        runtime.block_on(async {
            match timeout(self.limit, self.exchange(method, path, body)).await {
                Ok(result) => result,
                Err(_) => Err(self.too_slow()),
            }
        })
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Value, Failure> {
        let body = body.unwrap_or_default();
        match call(&self.socket, method, path, body).await {
            Ok(reply) => self.read(reply.status, &reply.body),
            Err(CallError::Unreachable(error)) => Err(self.unreachable(&error)),
            Err(CallError::Request(error)) => {
                Err(Problem::new(Code::SysUsage, error.to_string()).into())
            }
            Err(CallError::Broken(error)) => Err(self
                .not_running("the connection broke off")
                .caused_by(error.as_ref())
                .into()),
        }
    }

    fn read(&self, status: StatusCode, bytes: &[u8]) -> Result<Value, Failure> {
        let document: Value = serde_json::from_slice(bytes)
            .map_err(|_| self.skew(&format!("HTTP {status} without a document")))?;
        let version = document.get("apiVersion").and_then(Value::as_str);
        if version != Some(CLI_VERSION) {
            return Err(self.skew(&format!(
                "the role speaks {}, this command line {CLI_VERSION}",
                version.unwrap_or("no version")
            )));
        }
        if status.is_success() {
            return Ok(document);
        }
        match serde_json::from_value::<Problem>(document) {
            Ok(problem) => Err(problem.into()),
            Err(error) => Err(self.skew(&format!("HTTP {status}: {error}"))),
        }
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        let socket = self.socket.display();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Problem::new(
                Code::HostSocketPermission,
                format!("this user may not ask {}", self.name()),
            )
            .evidence(format!("{socket}: {error}"))
            .consequence("nothing was asked")
            .fix(
                Fix::text(
                    "run the command as root; or join the group kedge, which must be there when the \
                     role starts, and log in again",
                )
                .command("sudo groupadd -f -r kedge && sudo usermod -aG kedge \"$USER\""),
            )
            .into(),
            io::ErrorKind::NotFound => self
                .not_running("is not running")
                .evidence(format!("{socket} does not exist"))
                .into(),
            _ => self
                .not_running("is not running")
                .evidence(format!("{socket}: {error}"))
                .into(),
        }
    }

    fn not_running(&self, how: &str) -> Problem {
        let role = self.role.unwrap_or(Role::Agent);
        Problem::new(Code::HostNotRunning, format!("{} {how}", self.name()))
            .consequence("there is nobody to ask; what it left behind is not shown")
            .fix(
                Fix::text("start it, or read in its log why it ended").command(match &self.root {
                    Some(root) => format!("sudo kedge --root {} {role}", root.display()),
                    None => format!("sudo kedge {role}"),
                }),
            )
    }

    fn too_slow(&self) -> Failure {
        Failure {
            problem: Problem::new(
                Code::HostNotRunning,
                format!(
                    "{} did not answer within {}",
                    self.name(),
                    kedge_core::Span::new(self.limit)
                ),
            )
            .evidence(format!("{} accepts connections", self.socket.display()))
            .consequence("nothing is known of its state")
            .fix(
                Fix::text("wait longer, or look what keeps it busy")
                    .command("kedge status --timeout 30s; top -b -n 1 | head"),
            ),
            exit: Exit::TimedOut,
        }
    }

    fn skew(&self, evidence: &str) -> Failure {
        Problem::new(
            Code::SysVersionSkew,
            format!(
                "{} and this command line do not understand each other",
                self.name()
            ),
        )
        .evidence(evidence)
        .evidence(format!(
            "this command line is {}",
            env!("CARGO_PKG_VERSION")
        ))
        .consequence("its answer is not shown")
        .fix(
            Fix::text("use the command line the role was installed with")
                .command("kedge version; readlink -f /proc/$(pidof kedge)/exe"),
        )
        .into()
    }

    fn name(&self) -> String {
        match self.role {
            Some(role) => format!("the {role}"),
            None => format!("the role behind {}", self.socket.display()),
        }
    }
}

#[cfg(test)]
mod tests;
