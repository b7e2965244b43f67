//! UDP sockets of the tunnel engine.
