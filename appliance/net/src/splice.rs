//! Moving bytes between sockets without copying them.
