//! Being told to stop: the first signal asks, the second insists.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Signals that mean "stop": from a keyboard, from a supervisor, from a terminal that is closed.
#[derive(Debug)]
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Stop {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }

    /// A token that fires at the first signal. At the second the process ends as it is: everything a run needs is
    /// durable already.
    pub(crate) fn into_token(mut self) -> CancellationToken {
        let token = CancellationToken::new();
        let fired = token.clone();
        tokio::spawn(async move {
            self.asked().await;
            fired.cancel();
            self.asked().await;
            tracing::warn!("second signal: ending at once");
            std::process::exit(i32::from(super::exit::FAILED));
        });
        token
    }
}
