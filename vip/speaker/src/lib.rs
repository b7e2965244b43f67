//! The shell that drives VRRP routers on a thread of their own.
