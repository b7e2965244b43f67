//! A session alone, and two that talk.

mod bench;
mod laws;
mod pair;
mod rules;
mod table;
mod timers;
