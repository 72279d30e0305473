//! What the tests of models share: a request to vary and sinks that remember or fail.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::{agent::ModelParameters, message::Message};

use crate::{Delta, DeltaSink, ErrorClass, ModelError, ModelRequest, ToolChoice};

/// The first attempt of the first call to the script `s`.
pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        run_id: "run-1".into(),
        call_index: 0,
        attempt: 1,
        provider: "script".into(),
        model: "s".into(),
        spec: Arc::default(),
        system: String::new(),
        messages: messages.into(),
        tools: [].into(),
        tool_choice: ToolChoice::Auto,
        reasoning_level: None,
        output_schema: None,
        parameters: ModelParameters::default(),
        credentials: None,
        deadline: None,
        cancel: CancellationToken::new(),
    }
}

/// Remembers what came and how many milliseconds after the start.
pub(crate) struct Recorder {
    start: Instant,
    pub(crate) deltas: Vec<(u128, Delta)>,
    /// Cancelled once this many deltas have come.
    pub(crate) cancel_after: Option<(usize, CancellationToken)>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), deltas: Vec::new(), cancel_after: None }
    }
}

#[async_trait]
impl DeltaSink for Recorder {
    async fn push(&mut self, delta: Delta) -> Result<(), ModelError> {
        self.deltas.push((self.start.elapsed().as_millis(), delta));
        if let Some((limit, cancel)) = &self.cancel_after
            && self.deltas.len() == *limit
        {
            cancel.cancel();
        }
        Ok(())
    }
}

/// Takes nothing.
pub(crate) struct Closed;

#[async_trait]
impl DeltaSink for Closed {
    async fn push(&mut self, _: Delta) -> Result<(), ModelError> {
        Err(ModelError::new(ErrorClass::Server, "the log is closed"))
    }
}
