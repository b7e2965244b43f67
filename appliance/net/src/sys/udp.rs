//! System calls for `udp`.
