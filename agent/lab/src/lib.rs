//! The lab: namespaces, links, faults, probes, the demo and the benches.
