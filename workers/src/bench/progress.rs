//! A progress bar on stderr, if it is a terminal.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    shown: bool,
}

/// The progress bar of one measurement. It is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Bar(Option<ProgressBar>);

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    pub(super) fn begin(self, what: &'static str, steps: u32) -> Bar {
        if !self.shown {
            return Bar(None);
        }
        // Drawn a few times per second at most, so that drawing does not distort the measurement.
        let bar = ProgressBar::with_draw_target(Some(u64::from(steps)), ProgressDrawTarget::stderr_with_hz(4));
        if let Ok(style) = ProgressStyle::with_template("{prefix:<12} {bar:30} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        Bar(Some(bar))
    }
}

impl Bar {
    pub(super) fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    pub(super) fn reach(&self, steps: u32) {
        if let Some(bar) = &self.0 {
            bar.set_position(u64::from(steps));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
