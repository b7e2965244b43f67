//! Our own core against boringtun's, in both roles, and our own against itself.

mod differential;
mod ends;
mod limits;
