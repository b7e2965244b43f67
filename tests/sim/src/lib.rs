//! Deterministic simulation of the protocol machines on a virtual network.
