//! The packet engine: TUN and UDP workers around the peers.
