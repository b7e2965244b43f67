//! Addresses Kedge owns: a desired set, compared with the kernel.
