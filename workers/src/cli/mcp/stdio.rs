//! Lines of stdin and stdout, each on a thread of its own: a read of stdin cannot be interrupted.

use std::{
    io::{BufRead as _, Write as _},
    thread,
};

use tokio::sync::mpsc;

/// How many lines wait to be handled; the client waits with the next ones.
const AHEAD: usize = 16;

/// The lines of stdin, to its end.
pub(super) fn lines() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel(AHEAD);
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if send.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Writes lines to stdout, each at once.
pub(super) fn writer() -> mpsc::UnboundedSender<String> {
    let (send, mut lines) = mpsc::unbounded_channel::<String>();
    thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        while let Some(line) = lines.blocking_recv() {
            // A client that does not read any more closes stdin, too.
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    });
    send
}
