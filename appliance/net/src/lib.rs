//! The kernel: netlink, raw and packet sockets, TUN, namespaces, nftables. The only crate with `unsafe`.
