//! Questions a control socket puts to the loop of its role: what is shown is what the loop decides
//! with, so the loop answers.

use kedge_control::{
    Kind,
    local::{BgpNeighbor, ConfigInForce, Reloaded, ShortcutStatus, TunnelList},
};
use kedge_core::{Code, Fix, Problem};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::Failure;
use crate::Role;

/// A role whose loop answers.
pub trait Answers: 'static {
    /// The role.
    const ROLE: Role;

    /// The role at one glance.
    type Status: Kind + Serialize + Send + 'static;

    /// The role at one glance.
    fn status(&self) -> Self::Status;

    /// Every tunnel.
    fn tunnels(&self) -> TunnelList;

    /// Every BGP neighbour.
    fn neighbors(&self) -> Vec<BgpNeighbor> {
        Vec::new()
    }

    /// Every endpoint that it may answer for.
    fn shortcuts(&self) -> Vec<ShortcutStatus> {
        Vec::new()
    }

    /// Why it does not do its work yet; problems beside that are in its status.
    fn unready(&self) -> Option<&'static str> {
        None
    }

    /// The configuration in force.
    fn config(&self) -> ConfigInForce;

    /// Reads the configuration again.
    ///
    /// # Errors
    ///
    /// The configuration on the disk has an error.
    fn reload(&mut self) -> Result<Reloaded, Problem>;
}

/// The socket's end: asks.
pub struct Asks<T>(mpsc::Sender<Ask<T>>);

/// A question to the loop.
pub struct Ask<T>(Question<T>);

enum Question<T> {
    Look(Box<dyn FnOnce(&T) + Send>),
    Change(Box<dyn FnOnce(&mut T) + Send>),
    Reload(oneshot::Sender<Result<Reloaded, Problem>>),
}

/// Questions, and the loop's end of them.
#[must_use]
pub fn questions<T: Answers>() -> (Asks<T>, mpsc::Receiver<Ask<T>>) {
    let (asks, asked) = mpsc::channel(ASKS);
    (Asks(asks), asked)
}

impl<T: Answers> Asks<T> {
    /// Asks the loop to look at the role, and waits for what it sees.
    ///
    /// # Errors
    ///
    /// The role is leaving.
    pub async fn look<A: Send + 'static>(
        &self,
        look: impl FnOnce(&T) -> A + Send + 'static,
    ) -> Result<A, Failure> {
        self.ask(|answer| {
            Question::Look(Box::new(|role: &T| {
                // Whoever asked may have left: that is theirs.
                drop(answer.send(look(role)));
            }))
        })
        .await
    }

    /// Asks the loop to change something of the role, and waits for what it says.
    ///
    /// # Errors
    ///
    /// The role is leaving.
    pub async fn change<A: Send + 'static>(
        &self,
        change: impl FnOnce(&mut T) -> A + Send + 'static,
    ) -> Result<A, Failure> {
        self.ask(|answer| {
            Question::Change(Box::new(|role: &mut T| {
                // Whoever asked may have left: what was ordered holds.
                drop(answer.send(change(role)));
            }))
        })
        .await
    }

    /// Asks the loop to read the configuration again.
    ///
    /// # Errors
    ///
    /// The role is leaving, or the configuration on the disk has an error.
    pub async fn reload(&self) -> Result<Reloaded, Failure> {
        self.ask(Question::Reload).await?.map_err(Failure)
    }

    async fn ask<A>(
        &self,
        question: impl FnOnce(oneshot::Sender<A>) -> Question<T>,
    ) -> Result<A, Failure> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask(question(answer));
        self.0.send(ask).await.map_err(|_| leaving(T::ROLE))?;
        answered.await.map_err(|_| leaving(T::ROLE))
    }
}

impl<T> Clone for Asks<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Answers> Ask<T> {
    /// Answers; whether the role read its configuration again.
    pub fn answer(self, role: &mut T) -> bool {
        match self.0 {
            Question::Look(look) => {
                look(role);
                false
            }
            Question::Change(change) => {
                change(role);
                false
            }
            Question::Reload(answer) => {
                drop(answer.send(role.reload()));
                true
            }
        }
    }
}

/// The answer about a name nobody has; `list` is the command that shows the names there are.
#[must_use]
pub fn unknown(code: Code, what: &str, name: &str, list: &str) -> Failure {
    let shown: String = name.escape_debug().take(80).collect();
    Failure(
        Problem::new(code, format!("no {what} is called `{shown}`"))
            .fix(Fix::text("list what there is").command(list)),
    )
}

fn leaving(role: Role) -> Failure {
    Failure(
        Problem::new(Code::HostNotRunning, format!("the {role} is leaving"))
            .consequence("nothing was done")
            .fix(Fix::text("ask again when it is back").command("kedge status")),
    )
}

const ASKS: usize = 16;
