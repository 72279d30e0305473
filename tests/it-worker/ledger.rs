//! The ledger and what writes to it. A line is written with one `write` to a file opened for appending, so lines of
//! several processes do not mix and a line that is there was really reached.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use serde_json::json;
use windlass_core::{
    agent::{ToolSource, ToolSpec},
    canonical::CanonicalJson,
    envelope::ToolErrorKind,
    ids::ToolName,
};
use windlass_models::{DeltaSink, Model, ModelError, ModelRequest, ModelResponse, script::ScriptModel};
use windlass_tools::{CallContext, Tool, ToolFailure, ToolSuccess};

pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &str) -> std::io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    /// `what run item attempt milliseconds`, also to standard output, where the test reads it as it happens.
    fn write(&self, what: &str, run: &str, item: &str, attempt: u32) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let line = format!("{what} {run} {item} {attempt} {now}\n");
        (&self.0).write_all(line.as_bytes()).expect("the ledger takes a line");
        print!("{line}");
        std::io::stdout().flush().ok();
    }
}

/// Takes as long as it is told (`ms`) and returns as much as it is told (`bytes`).
pub(crate) struct LedgerTool {
    pub(crate) name: &'static str,
    pub(crate) idempotent: bool,
    pub(crate) ledger: Arc<Ledger>,
}

#[async_trait]
impl Tool for LedgerTool {
    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(ToolName::new(self.name), ToolSource::Builtin);
        spec.idempotent = self.idempotent;
        spec
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let args = args.to_value();
        let (run, call) = (context.run_id.as_str(), context.call_id.as_str());
        self.ledger.write(&format!("begin-{}", self.name), run, call, context.attempt);
        let work = tokio::time::sleep(Duration::from_millis(args["ms"].as_u64().unwrap_or(0)));
        tokio::select! {
            () = work => {}
            () = context.cancel.cancelled() => {
                return Err(ToolFailure::new(ToolErrorKind::Cancelled, "stopped"));
            }
        }
        self.ledger.write(&format!("end-{}", self.name), run, call, context.attempt);
        let bytes = usize::try_from(args["bytes"].as_u64().unwrap_or(8)).unwrap_or(8);
        Ok(ToolSuccess::new(json!("x".repeat(bytes))))
    }
}

/// The scripted model; each question put to it is a payment.
pub(crate) struct LoggedModel {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) scripts: ScriptModel,
}

#[async_trait]
impl Model for LoggedModel {
    async fn respond(&self, request: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        self.ledger.write("ask", request.run_id.as_str(), &request.call_index.to_string(), request.attempt);
        self.scripts.respond(request, sink).await
    }
}
