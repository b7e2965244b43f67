//! A whole agent on a host, as a process of its own, and the command line beside it.

use std::ops::{Deref, DerefMut};

use crate::{
    asked::{Asked, Said},
    guardian::Guardian,
    lan::Host,
    role::RoleOf,
};

/// An agent and its folders; killed when dropped.
#[derive(Debug)]
pub struct Agent<'a>(RoleOf<'a>);

impl<'a> Agent<'a> {
    /// A host's agent with this configuration, not started yet.
    #[must_use]
    pub fn new(host: &'a Host, executable: &str, yaml: &str) -> Self {
        Self(RoleOf::new(host, executable, ("agent", "root"), yaml))
    }

    /// The same, started.
    #[must_use]
    pub fn running(host: &'a Host, executable: &str, yaml: &str) -> Self {
        let mut agent = Self::new(host, executable, yaml);
        agent.start();
        agent
    }

    /// Its guardian, as soon as there is one.
    #[must_use]
    pub fn guardian(&self) -> Guardian {
        Guardian::of(self.id())
    }
}

impl<'a> Deref for Agent<'a> {
    type Target = RoleOf<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Agent<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Asked for Agent<'_> {
    fn kedge(&self, line: &str) -> Said {
        self.0.kedge(line)
    }
}
