//! What the kernel's network looks like: the latest value, followed by a task.

use std::time::Duration;

use kedge_core::{Coded as _, Problem};
use kedge_net::monitor::{DefaultRoute, Link, MonitorError, Watch};
use tokio::{sync::watch, task::JoinHandle, time::sleep};
use tracing::warn;

/// Links with their addresses, and default routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// Every link, by index.
    pub links: Vec<Link>,
    /// The default routes, best first.
    pub default_routes: Vec<DefaultRoute>,
    /// Why the kernel cannot be observed.
    pub problem: Option<Problem>,
}

/// Follows the kernel until dropped.
#[derive(Debug)]
pub(crate) struct Observer {
    facts: watch::Receiver<Facts>,
    task: JoinHandle<()>,
}

impl Observer {
    /// Reads the kernel once and follows it from there. A kernel that cannot be read is a problem
    /// in the facts, and tried again.
    pub fn start() -> Self {
        let mut watch = Watch::open();
        let first = read(&mut watch);
        let (publish, facts) = watch::channel(first);
        let task = tokio::spawn(follow(watch, publish));
        Self { facts, task }
    }

    /// The latest facts.
    pub fn subscribe(&self) -> watch::Receiver<Facts> {
        self.facts.clone()
    }
}

impl Facts {
    /// What is known now: while the kernel cannot be read everything is as it was. Links that are
    /// not seen are not gone, and priorities and claims depend on them.
    fn after(&self, before: &Self) -> Self {
        match &self.problem {
            None => self.clone(),
            Some(problem) => Self {
                problem: Some(problem.clone()),
                ..before.clone()
            },
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(mut watch: Result<Watch, MonitorError>, publish: watch::Sender<Facts>) {
    loop {
        match &mut watch {
            Ok(open) => match open.changed().await {
                // An interface that comes up makes a handful of changes: tell them as one.
                Ok(_) => sleep(SETTLE).await,
                Err(err) => {
                    let error = &err as &dyn std::error::Error;
                    warn!(error, "the kernel's network is not observed");
                    watch = Err(err);
                }
            },
            Err(_) => {
                sleep(RETRY).await;
                watch = Watch::open();
            }
        }
        let facts = read(&mut watch);
        publish.send_if_modified(|known| {
            let facts = facts.after(known);
            std::mem::replace(known, facts.clone()) != facts
        });
    }
}

fn read(watch: &mut Result<Watch, MonitorError>) -> Facts {
    if let Ok(open) = watch {
        match open.default_routes() {
            Ok(default_routes) => {
                return Facts {
                    default_routes,
                    links: open.monitor().links().cloned().collect(),
                    problem: None,
                };
            }
            // Opened anew after a pause, like one that cannot be followed.
            Err(error) => *watch = Err(error),
        }
    }
    Facts {
        problem: watch.as_ref().err().map(|error| error.problem()),
        ..Facts::default()
    }
}

const SETTLE: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use kedge_core::Code;

    use super::*;

    #[test]
    fn a_kernel_that_cannot_be_read_takes_no_link_away() {
        let seen = Facts {
            links: vec![Link::default()],
            ..Facts::default()
        };
        let lost = Facts {
            problem: Some(Problem::new(Code::NetKernel, "lost")),
            ..Facts::default()
        };
        let known = lost.after(&seen);
        assert_eq!(known.links, seen.links);
        assert_eq!(known.problem, lost.problem);
        assert_eq!(seen.after(&known), seen);
    }
}
