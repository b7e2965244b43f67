//! Streams that carry datagrams, the question whether they are needed still, and when a peer was heard.

use std::net::SocketAddr;

use kedge_core::Instant;

use super::Inner;
use crate::{lanes::Lane, worker::Command};

impl Inner {
    /// Makes a place for a stream.
    pub(crate) fn lane(&self) -> Lane {
        self.shared.lanes.open()
    }

    /// Asks a peer over the way to a place. Whether the worker was told.
    pub(crate) fn ask(&self, name: &str, place: SocketAddr, number: u64) -> bool {
        self.command_of(name, |id| Command::Ask(id, place, number))
    }

    /// Which of these questions was answered last.
    pub(crate) fn answered(&self, name: &str) -> Option<u64> {
        let control = self.control();
        control.directory.find(name)?.counters.read().answered
    }

    /// When authenticated data came from a peer last.
    pub(crate) fn heard(&self, name: &str) -> Option<Instant> {
        let control = self.control();
        control.directory.find(name)?.counters.read().last_data
    }
}
