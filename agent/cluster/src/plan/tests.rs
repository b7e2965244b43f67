//! Plans, and a cluster and a manager that carry them out.

mod claims;
mod fields;
mod flow;
mod ingresses;
mod law;
mod routes;
mod shown;
mod world;
