//! Plans, and a cluster and a manager that carry them out.

mod claims;
mod companions;
mod fields;
mod flow;
mod ingresses;
mod kinds;
mod law;
mod own_addresses;
mod routes;
mod shown;
mod world;
