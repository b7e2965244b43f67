//! The vocabulary every Kedge crate shares: time as a value, the [`Machine`] trait, bounded
//! values, error codes and the [`Problem`] shape in which errors reach people.
//!
//! Nothing here does I/O, reads a clock or allocates on a hot path.

pub mod bfd;
pub mod bgp;
pub mod code;
pub mod lease;
pub mod machine;
pub mod name;
pub mod problem;
pub mod span;
pub mod time;
pub mod vip;

pub use code::{Area, Code};
pub use machine::Machine;
pub use name::Name;
pub use problem::{Coded, Fix, Problem, Severity, with_causes};
pub use span::Span;
pub use time::Instant;
