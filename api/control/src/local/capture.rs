//! What became of a capture.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capture of the packets inside the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelCapture {
    /// The tunnel's interface.
    pub device: String,
    /// The peer whose packets alone were captured; none when all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Where they are, pcapng.
    pub file: String,
    /// Packets captured.
    pub packets: u64,
    /// Their bytes, whole packets.
    pub bytes: u64,
    /// Packets for which the kernel's queue had no room, whosever they were.
    pub dropped: u64,
    /// How long it took, in seconds.
    pub duration_seconds: f64,
    /// Why it ended, as a sentence.
    pub because: String,
}
