//! The router as tables, rules and laws.

mod bench;
mod laws;
mod rules_address;
mod rules_election;
mod rules_families;
mod rules_health;
mod rules_leaving;
mod rules_peers;
mod rules_reports;
mod rules_two;
mod table;
