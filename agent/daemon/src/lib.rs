//! The agent role: composes VIPs, tunnel, report and control socket.

pub mod config;
mod health;
mod persist;

pub use config::{AgentConfig, AgentFile};
