mod gates;
mod law;
mod leaving;
mod outcomes;
mod reserve;
mod serving;
mod several;
mod world;
