//! Text for people: pure functions from data to text.
//!
//! Nothing here reads a store, calls a server or writes to a terminal. Text from a model, a tool or a caller is cleaned
//! before it is shown, because it may contain terminal control sequences.

mod awaits;
mod event_line;
mod event_view;
mod hint;
mod paint;
mod run;
mod table;
mod text;
mod time;
mod transcript;
mod wrap;

pub use self::{
    awaits::{await_lines, await_summary, how_to_answer},
    event_line::{event_line, event_summary},
    event_view::{EventView, Show},
    hint::Hint,
    paint::Paint,
    run::{Details, details, run_table},
    table::Table,
    text::{clean, json_line, one_line},
    time::{age, duration, moment},
    transcript::{Entry, conversation, transcript_lines},
    wrap::LineBuffer,
};
