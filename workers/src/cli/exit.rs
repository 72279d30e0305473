//! How a command ends: exit codes, and failures that choose one.

use std::{fmt, process::ExitCode};

use windlass_ops::OpsError;

use super::refusal::explained;

/// The run or the operation failed.
pub const FAILED: u8 = 1;
/// The command line or a definition is wrong.
pub const USAGE: u8 = 2;
/// The run was cancelled.
pub const CANCELLED: u8 = 3;
/// Nobody follows the run any more; it goes on.
pub const DETACHED: u8 = 4;
/// The run did not take what was sent.
pub const REFUSED: u8 = 5;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    error: anyhow::Error,
    passes: bool,
}

impl Failure {
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Whether the same may succeed later: a server or a worker was away, or had too much to do.
    pub fn may_pass(&self) -> bool {
        self.passes
    }

    /// The same may succeed later.
    #[must_use]
    pub fn passing(self) -> Self {
        Self { passes: true, ..self }
    }
}

/// Something the caller typed or wrote cannot be used; the message stands on its own.
pub fn usage(message: impl fmt::Display) -> Failure {
    Failure { code: USAGE, error: anyhow::anyhow!("{message}"), passes: false }
}

/// Something did not work out; the message says what to do next.
pub fn failed(message: impl fmt::Display) -> Failure {
    Failure { code: FAILED, error: anyhow::anyhow!("{message}"), passes: false }
}

/// The run did not take what was sent, or could not.
pub fn refused(message: impl fmt::Display) -> Failure {
    Failure { code: REFUSED, error: anyhow::anyhow!("{message}"), passes: false }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = anyhow::Error::from(error);
        let passes = error.downcast_ref().is_some_and(windlass_client::Error::is_transient)
            || matches!(error.downcast_ref(), Some(OpsError::Unanswered { .. }));
        match error.downcast_ref().and_then(explained) {
            Some((code, sentence)) => Self { code, error: anyhow::anyhow!(sentence), passes },
            None => Self { code: FAILED, error, passes },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is wrong in a file is said in the form that editors jump to, so nothing goes before it.
        let program = if self.code == USAGE { "" } else { "windlass: " };
        write!(f, "{program}{:#}", self.error)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use windlass_ops::PairingError;
    use windlass_store::StoreError;

    use super::*;
    use crate::{embedded::EmbeddedError, temporal::ConnectError};

    #[test]
    fn an_error_says_its_reason_once() {
        let reason = || io::Error::other("the reason");
        let store = || StoreError::InvalidArgument { argument: "cursor", problem: "the reason".into() };
        let errors: [Failure; 5] = [
            EmbeddedError::Listen { address: ([127, 0, 0, 1], 7233).into(), reason: reason() }.into(),
            ConnectError::TlsFile { path: "ca.pem".into(), reason: reason() }.into(),
            windlass_engine::EngineError::Lock { path: "data".into(), reason: reason() }.into(),
            OpsError::from(store()).into(),
            PairingError::from(store()).into(),
        ];
        for error in errors.map(|error| error.to_string()) {
            assert_eq!(error.matches("the reason").count(), 1, "{error}");
        }
    }
}
