//! System calls for `splice`.
