//! The tests in network namespaces: one program, as each would be linked with the whole of Kedge anew. CI runs
//! each module as a process of its own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod back_ends;
mod bfd_bird;
mod bfd_frr;
mod bfd_limits;
mod bfd_tracks;
#[path = "bgp_agent/main.rs"]
mod bgp_agent;
mod bgp_bird;
mod bgp_frr;
mod bgp_guide;
mod bgp_last_word;
mod bgp_peers;
mod bgp_unnumbered;
mod checked;
mod demo;
#[path = "envoy/main.rs"]
mod envoy;
mod fallback;
mod gateway_envoy;
mod gateways;
mod lab_bench;
mod lab_parts;
#[path = "load_balancing/main.rs"]
mod load_balancing;
mod mesh;
mod mtu;
mod proxied;
mod shortcut;
#[path = "sites/main.rs"]
mod sites;
mod tunnel;
mod tunnel_back_ends;
mod tunnel_basic;
mod tunnel_failures;
mod tunnel_fallback;
mod tunnel_fallback_measured;
mod tunnel_fleet;
mod tunnel_interop;
mod tunnel_kernel;
mod tunnel_keys;
mod tunnel_matrix;
mod tunnel_metrics;
mod tunnel_mtu;
mod tunnel_mtu_roles;
mod tunnel_mtu_routes;
mod tunnel_offload;
mod tunnel_other_port;
mod tunnel_workers;
mod vip_absence;
mod vip_accept;
mod vip_apply;
mod vip_commands;
mod vip_conflicts;
mod vip_devices;
mod vip_fast;
mod vip_faults;
mod vip_frr;
mod vip_groups;
mod vip_guardian;
mod vip_health;
mod vip_kedge;
mod vip_keepalived;
mod vip_links;
mod vip_migrate;
mod vip_proof;
mod vip_restart;
mod vip_riders;
mod vip_signed;
mod vip_tracks;
mod vip_versions;
mod vip_vmac;
mod vip_vmac_agent;
mod vip_vmac_interop;
mod vip_wire;
mod wg;
mod wg_device;
mod wg_handed_over;
mod wg_live;
mod wg_quick;
mod wg_workers;
