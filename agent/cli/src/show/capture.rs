//! What was captured.

use kedge_control::local::TunnelCapture;

use super::{Show, View};
use crate::style::{bytes, clean, short};

impl Show for TunnelCapture {
    fn text(&self, _view: &View) -> String {
        let whose = match &self.peer {
            Some(peer) => format!(" of {}", clean(peer)),
            None => String::new(),
        };
        format!(
            "{} packets{whose} ({}) in {}, {} dropped by the kernel; {}: {}\n",
            self.packets,
            bytes(self.bytes),
            short(self.duration_seconds),
            self.dropped,
            self.because,
            clean(&self.file)
        )
    }

    fn names(&self) -> Vec<String> {
        vec![self.file.clone()]
    }
}
