//! How a command talks to the supervisor: one JSON line each way.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use kedge_core::{Code, Coded, Fix, Problem};
use kedge_net::netns;
use serde::{Deserialize, Serialize};

use super::{LabChange, LabStatus};

/// What a command wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub(crate) enum Request {
    /// What there is.
    Status,
    /// A node dies.
    Kill {
        /// The node.
        node: String,
    },
    /// A node loses its links.
    Cut {
        /// The node.
        node: String,
    },
    /// A node is well again.
    Heal {
        /// The node.
        node: String,
    },
    /// The end.
    Down,
}

/// What the supervisor says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Answer {
    /// What there is.
    Status(LabStatus),
    /// It was done.
    Done(LabChange),
    /// It was not.
    Problem(Box<Problem>),
}

/// The name of the supervisor's socket in the run's directory.
pub(super) const SOCKET: &str = "lab.sock";

/// The socket of the lab that is up, if one is.
pub(super) fn find() -> Result<Option<PathBuf>, Problem> {
    let runs = netns::live().map_err(|err| err.problem())?;
    Ok(runs
        .into_iter()
        .map(|(_, directory)| directory.join(SOCKET))
        .find(|path| path.exists()))
}

/// The socket of the lab that is up.
pub(super) fn require() -> Result<PathBuf, Problem> {
    find()?.ok_or_else(|| {
        Problem::new(Code::LabNotUp, "no lab is up")
            .consequence("there is nothing to look at or to change")
            .fix(Fix::text("start one").command("sudo kedge lab up"))
    })
}

/// Asks the supervisor.
pub(super) fn ask(socket: &Path, request: &Request) -> Result<Answer, Problem> {
    let silent = |err: io::Error| {
        Problem::new(Code::LabNotUp, "the lab's supervisor does not answer")
            .evidence(socket.display().to_string())
            .caused_by(&err)
            .consequence("nothing was changed")
            .fix(Fix::text("take the lab down and start another").command("sudo kedge lab down"))
    };
    let answer = exchange(socket, request).map_err(silent)?;
    match answer {
        Answer::Problem(problem) => Err(*problem),
        answer => Ok(answer),
    }
}

pub(super) fn unexpected(answer: &Answer) -> Problem {
    Problem::new(
        Code::SysUnexpected,
        "the lab's supervisor answered something else",
    )
    .evidence(format!("{answer:?}"))
}

/// Reads one request.
pub(super) fn read(stream: &UnixStream) -> io::Result<Request> {
    line(stream)
}

/// Writes one answer.
pub(super) fn write(mut stream: impl Write, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

fn exchange(socket: &Path, request: &Request) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    line(&stream)
}

fn line<T: serde::de::DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut text = String::new();
    let limited = io::Read::take(stream, LONGEST);
    BufReader::new(limited).read_line(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// The longest a request may take: a node that starts again.
const LIMIT: Duration = Duration::from_secs(30);

const LONGEST: u64 = 1 << 20;
