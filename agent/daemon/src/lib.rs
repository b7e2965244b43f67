//! The agent role: composes VIPs, tunnel, report and control socket.
