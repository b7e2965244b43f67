//! The manager role: stores, plans, agent API.
