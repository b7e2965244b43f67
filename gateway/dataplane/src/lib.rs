//! The built-in L4 proxy: listeners, members, splice.
