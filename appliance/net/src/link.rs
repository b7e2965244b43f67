//! Links: veth, bridge, addresses and routes for the lab.
