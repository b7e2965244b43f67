//! The router as tables, rules and laws.

mod bench;
mod laws;
mod rules_address;
mod rules_election;
mod rules_health;
mod rules_leaving;
mod rules_reports;
mod table;
