//! System calls for `tun`.
