//! Where a run is shown: on a terminal with a status line, else as plain lines.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    cli::width_of,
    render::{LineBuffer, Paint, Show},
};

const TICK: Duration = Duration::from_millis(100);
/// Columns that stay free at the right.
const MARGIN: u16 = 1;

/// Draws on stderr; stdout is for data.
pub(super) struct Screen {
    paint: Paint,
    text: LineBuffer,
    /// Whether lines of the current text were already printed.
    text_printed: bool,
    status: Option<ProgressBar>,
    prompt: Option<String>,
    begun: Instant,
}

impl Screen {
    pub(super) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let width = width_of(&io::stderr()).filter(|_| terminal);
        let begun = Instant::now();
        Self {
            paint: Paint::for_stream(terminal),
            text: LineBuffer::new(width.map(|width| usize::from(width.saturating_sub(MARGIN)))),
            text_printed: false,
            status: terminal.then(|| status_line(begun)),
            prompt: None,
            begun,
        }
    }

    pub(super) fn paint(&self) -> Paint {
        self.paint
    }

    pub(super) fn show(&mut self, show: Show) {
        match show {
            Show::Text(piece) => {
                for line in self.text.push(&piece) {
                    self.text_printed = true;
                    self.print(&line);
                }
                self.draw_pending();
            }
            Show::EndText => self.end_text(),
            Show::VoidText => {
                let shown = self.text.finish().is_some() || self.text_printed;
                self.text_printed = false;
                self.draw_pending();
                if shown {
                    let note = self.paint.dim("(restarted)");
                    self.print(&note);
                }
            }
            Show::Line(line) => {
                self.end_text();
                self.print(&line);
            }
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        self.show(Show::Line(line.to_owned()));
    }

    /// What the run is doing.
    pub(super) fn doing(&self, words: String) {
        if let Some(status) = &self.status {
            status.set_message(words);
        }
    }

    /// Replaces the status line with a prompt.
    pub(super) fn ask(&mut self, prompt: &str) {
        self.end_text();
        if let Some(status) = self.status.take() {
            status.finish_and_clear();
        }
        let prompt = self.paint.bold(prompt);
        write(&prompt);
        self.prompt = Some(prompt);
    }

    /// Removes the prompt. `typed`: a line was entered, so the cursor is already on a new line.
    pub(super) fn stop_asking(&mut self, typed: bool) {
        if self.prompt.take().is_some() {
            if !typed {
                write("\n");
            }
            self.status = Some(status_line(self.begun));
        }
    }

    /// Ends the text and removes prompt and status line.
    pub(super) fn close(&mut self) {
        self.end_text();
        self.stop_asking(false);
        if let Some(status) = self.status.take() {
            status.finish_and_clear();
        }
    }

    fn end_text(&mut self) {
        self.text_printed = false;
        if let Some(line) = self.text.finish() {
            self.draw_pending();
            self.print(&line);
        }
    }

    /// The unfinished line stands above the status until it is finished.
    fn draw_pending(&self) {
        if let Some(status) = &self.status {
            let pending = self.text.pending();
            status.set_prefix(if pending.is_empty() { String::new() } else { format!("{pending}\n") });
        }
    }

    fn print(&self, line: &str) {
        match (&self.status, &self.prompt) {
            (Some(status), _) => status.suspend(|| write(&format!("{line}\n"))),
            (None, Some(prompt)) => write(&format!("\n{line}\n{prompt}")),
            (None, None) => write(&format!("{line}\n")),
        }
    }
}

fn status_line(begun: Instant) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_elapsed(begun.elapsed()).with_style(
        // This template has known fields only, so it cannot fail.
        ProgressStyle::with_template("{prefix}{spinner} {msg} · {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.enable_steady_tick(TICK);
    bar
}

/// Errors are ignored: the terminal was closed.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
