//! Questions a control socket puts to the loop of its role: what is shown is what the loop decides
//! with, so the loop answers.

use kedge_core::{Code, Fix, Problem};
use tokio::sync::{mpsc, oneshot};

use super::Failure;
use crate::Role;

/// Asks the loop and waits for its answer.
///
/// # Errors
///
/// The role is leaving.
pub async fn ask<Q, T>(
    role: Role,
    asks: &mpsc::Sender<Q>,
    question: impl FnOnce(oneshot::Sender<T>) -> Q,
) -> Result<T, Failure> {
    let (answer, answered) = oneshot::channel();
    let leaving = || {
        Failure(
            Problem::new(
                Code::HostNotRunning,
                format!("the {} is leaving", role.as_str()),
            )
            .consequence("nothing was done")
            .fix(Fix::text("ask again when it is back").command("kedge status")),
        )
    };
    asks.send(question(answer)).await.map_err(|_| leaving())?;
    answered.await.map_err(|_| leaving())
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
