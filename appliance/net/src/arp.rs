//! ARP on a packet socket.
