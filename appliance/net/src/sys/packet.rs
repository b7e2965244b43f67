//! System calls for `packet`.
