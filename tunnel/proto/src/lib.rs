//! WireGuard peers around the Noise core, allowed IPs, in-tunnel echo: no I/O.
