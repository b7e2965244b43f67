//! System calls for `sched`.
