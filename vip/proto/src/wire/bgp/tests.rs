//! Messages as bytes: what they say, what they must not, and what others make of them.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects"
)]

mod builder;
mod laws;
mod messages;
mod oracle;
mod revised;
mod updates;
