//! The gateway role: tunnel hub, member liveness, listeners.
