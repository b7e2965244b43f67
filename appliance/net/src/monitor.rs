//! Links, addresses and routes as the kernel has them, and their changes.
