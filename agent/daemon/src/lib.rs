//! The agent role: composes VIPs, tunnel, report and control socket.

pub mod config;

pub use config::{AgentConfig, AgentFile};
