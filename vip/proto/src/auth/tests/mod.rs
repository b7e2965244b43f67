//! Signed adverts: published vectors, the rules of either side, and laws for any input.

mod bench;
mod laws;
mod receiving;
mod sending;
mod trailers;
mod vectors;
