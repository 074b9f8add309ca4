//! The virtual GPU from outside: programs in, answers, findings and counters out.

mod arithmetic;
mod counters;
mod coverage;
mod files;
mod hopper;
mod hostile;
mod state;
mod waits;
mod world;
