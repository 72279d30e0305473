//! Printing: data on stdout, messages for people on stderr.

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    os::fd::AsFd,
};

use serde::Serialize;

use crate::render::Paint;

/// How this process prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// One line of data. A closed stdout is not an error.
    pub(crate) fn line(self, text: impl Display) {
        let _ = writeln!(io::stdout().lock(), "{text}");
    }

    /// One JSON document on one line.
    pub(crate) fn document(self, value: &impl Serialize) -> Result<(), serde_json::Error> {
        self.line(serde_json::to_string(value)?);
        Ok(())
    }

    /// The JSON document, or the text for people.
    pub(crate) fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), serde_json::Error> {
        if self.json {
            return self.document(value);
        }
        self.line(text());
        Ok(())
    }

    /// A message for people, on stderr.
    pub(crate) fn note(self, text: impl Display) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    pub(crate) fn paint(self) -> Paint {
        Paint::for_stream(io::stdout().is_terminal())
    }

    pub(crate) fn note_paint(self) -> Paint {
        Paint::for_stream(io::stderr().is_terminal())
    }

    /// The width of the terminal. `None` if stdout is not a terminal: tables are then not cut.
    pub(crate) fn table_width(self) -> Option<u16> {
        width_of(&io::stdout())
    }
}

/// The width of the terminal behind a stream, if there is one.
pub(crate) fn width_of(stream: &impl AsFd) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(size.ws_col).filter(|width| *width > 0)
}
