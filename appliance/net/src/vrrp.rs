//! VRRP sockets: raw for sending, packet socket for receiving.
