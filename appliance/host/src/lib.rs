//! The host: layered configuration, facts, service notification, identity, state files, enrolment client.
