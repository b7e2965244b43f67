//! System calls for `udp`: none that rustix does not offer without `unsafe`.
