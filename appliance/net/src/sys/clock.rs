//! System calls for `clock`.
