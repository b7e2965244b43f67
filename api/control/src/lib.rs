//! Wire types: agent API, local socket and load-balancing model, versioned.
