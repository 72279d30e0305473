//! Signals: the first one requests a shutdown, the second one exits at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// SIGINT, SIGTERM and SIGHUP.
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

    /// A token that is cancelled at the first signal. At the second, the process exits at once, which is safe: everything
    /// a run needs is already durable.
    pub(crate) fn into_token(mut self) -> CancellationToken {
        let token = CancellationToken::new();
        let fired = token.clone();
        tokio::spawn(async move {
            self.asked().await;
            fired.cancel();
            self.asked().await;
            tracing::warn!("second signal: exiting at once");
            std::process::exit(i32::from(super::exit::FAILED));
        });
        token
    }
}
