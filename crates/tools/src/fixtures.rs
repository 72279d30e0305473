//! What the tests of the tools share.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use windlass_core::{envelope::ToolErrorKind, secret::SecretRef};

use crate::{CallContext, ProgressSink, SecretSource, ToolFailure};

struct NoSecrets;

#[async_trait]
impl SecretSource for NoSecrets {
    async fn secret(&self, reference: &SecretRef) -> Result<SecretString, ToolFailure> {
        Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, format!("there is no {reference}")))
    }
}

pub(crate) fn context() -> CallContext {
    CallContext {
        workspace: "default".into(),
        session_id: None,
        run_id: "run-1".into(),
        call_id: "call_0_0".into(),
        attempt: 1,
        deadline: None,
        progress: ProgressSink::none(),
        secrets: Arc::new(NoSecrets),
        cancel: CancellationToken::new(),
        draining: CancellationToken::new(),
        resumption: None,
    }
}
