mod gates;
mod law;
mod outcomes;
mod reserve;
mod serving;
mod world;
