//! The router as tables, rules and laws.

mod bench;
mod laws;
mod rules_address;
mod rules_counts;
mod rules_election;
mod rules_families;
mod rules_group;
mod rules_health;
mod rules_leaving;
mod rules_orders;
mod rules_orphan;
mod rules_peer_link;
mod rules_peers;
mod rules_proof;
mod rules_reports;
mod rules_resuming;
mod rules_tracks;
mod rules_two;
mod rules_unverified;
mod rules_virtual_mac;
mod table;
