//! Attacks on a whole `windlass dev`: what it is given is broken, and it must say so or go on working.

mod backup;
pub(crate) mod corruption;
mod damage;
mod dev;
