//! Failures of a command: the message for the user and the exit code of the process.

mod refusal;

use std::{fmt, process::ExitCode};

use windlass_ops::OpsError;

use self::refusal::explained;

/// The run or the operation failed.
pub const FAILED: u8 = 1;
/// The command line or a definition is wrong.
pub const USAGE: u8 = 2;
/// The run was cancelled.
pub const CANCELLED: u8 = 3;
/// The command stopped following the run; the run continues.
pub const DETACHED: u8 = 4;
/// The run did not accept what was sent.
pub const REFUSED: u8 = 5;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    error: anyhow::Error,
    temporary: bool,
}

impl Failure {
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Whether another attempt may succeed: a server or a worker was unavailable or overloaded.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Marks the failure as temporary.
    #[must_use]
    pub fn temporary(self) -> Self {
        Self { temporary: true, ..self }
    }
}

/// An argument or a file of the user is not valid.
pub fn usage(message: impl fmt::Display) -> Failure {
    Failure { code: USAGE, error: anyhow::anyhow!("{message}"), temporary: false }
}

/// The operation failed. The message says what to do next.
pub fn failed(message: impl fmt::Display) -> Failure {
    Failure { code: FAILED, error: anyhow::anyhow!("{message}"), temporary: false }
}

/// The run did not accept what was sent.
pub fn refused(message: impl fmt::Display) -> Failure {
    Failure { code: REFUSED, error: anyhow::anyhow!("{message}"), temporary: false }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = anyhow::Error::from(error);
        let temporary = error.downcast_ref().is_some_and(windlass_client::Error::is_transient)
            || matches!(error.downcast_ref(), Some(OpsError::Unanswered { .. }));
        match error.downcast_ref().and_then(explained) {
            Some((code, sentence)) => Self { code, error: anyhow::anyhow!(sentence), temporary },
            None => Self { code: FAILED, error, temporary },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Errors in files begin with `file:line:column`, so that editors can jump to them: no prefix.
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
    use crate::{service::EmbeddedError, temporal::ConnectError};

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
