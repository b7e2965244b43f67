//! VRRP and ARP: codecs and sans-IO machines.
