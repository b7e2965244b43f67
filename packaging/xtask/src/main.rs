//! Project tasks: architecture check, generated documents, the check pipeline.
fn main() {}
