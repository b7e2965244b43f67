//! The `kedge` command line and executable.
