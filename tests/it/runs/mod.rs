//! What a run does, end to end.

mod basics;
