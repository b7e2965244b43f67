//! The `kedge` executable.
fn main() {}
