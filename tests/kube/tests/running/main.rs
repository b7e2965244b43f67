//! Running the manager: installed by the chart, with the chart's rights alone, beside Cluster API's
//! own managers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    dead_code,
    reason = "test code, parts of it shared with other suites"
)]

#[path = "../endpoint/fleet.rs"]
mod fleet;
#[path = "../endpoint/site.rs"]
mod site;

mod chart;
mod columns;
mod events;
mod installed;
mod policies;
mod rights;
mod serving;
