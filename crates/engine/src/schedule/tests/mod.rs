//! Tests of the times of specs, and of the state machine with a pretended world.

mod times;
mod turns;
mod world;
