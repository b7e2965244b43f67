//! nftables, through the nft program.
