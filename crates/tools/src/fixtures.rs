//! What the tests of the tools share.

use tokio_util::sync::CancellationToken;

use crate::CallContext;

pub(crate) fn context() -> CallContext {
    CallContext {
        workspace: "default".into(),
        run_id: "run-1".into(),
        call_id: "call_0_0".into(),
        attempt: 1,
        cancel: CancellationToken::new(),
    }
}
