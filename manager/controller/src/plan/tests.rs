mod law;
mod outcomes;
mod serving;
mod world;
