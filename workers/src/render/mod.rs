//! How runs look to people: pure functions from facts to text.
//!
//! Nothing here reads a store, asks a server or writes to a terminal. Text that came from a model, a tool or a caller is
//! cleaned before it is shown, because a terminal obeys what it is sent.

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
    transcript::{Said, conversation, transcript_lines},
    wrap::LineBuffer,
};
