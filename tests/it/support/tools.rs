//! Tools that tests can watch and hold up.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use windlass_core::{
    agent::{ToolSource, ToolSpec},
    canonical::CanonicalJson,
    envelope::ToolErrorKind,
    ids::{CallId, ToolName},
    message::{Content, ImageFormat, ImageSource, Part},
    secret::SecretRef,
};
use windlass_tools::{CallContext, Progress, Tool, ToolFailure, ToolSuccess};

/// What a watched tool saw.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) tool: String,
    pub(crate) call: CallId,
    pub(crate) args: Value,
    pub(crate) attempt: u32,
}

/// The test's view of its tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Watch {
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.tool).collect()
    }

    pub(crate) fn count(&self, tool: &str) -> usize {
        self.names().iter().filter(|name| *name == tool).count()
    }

    fn record(&self, tool: &str, context: &CallContext, args: &Value) {
        let seen =
            Seen { tool: tool.to_owned(), call: context.call_id.clone(), args: args.clone(), attempt: context.attempt };
        self.seen.lock().unwrap().push(seen);
    }
}

/// Returns its arguments, or `{"bytes": n}` times a letter.
pub(crate) struct Echo(pub(crate) Watch);

/// Fails; `{"times": n}` fails only for the first n attempts and says so as retryable.
pub(crate) struct Fail(pub(crate) Watch);

/// Reports that it began, then waits for a permit or for its cancellation.
pub(crate) struct Gate {
    pub(crate) watch: Watch,
    pub(crate) begun: mpsc::UnboundedSender<CallId>,
    pub(crate) permits: Arc<Semaphore>,
}

/// Reports its progress, reads the secret `report.key`, and returns text, an image and a structured result.
pub(crate) struct Report(pub(crate) Watch);

fn spec(name: &str, idempotent: bool, tags: &[&str]) -> ToolSpec {
    let mut spec = ToolSpec::new(ToolName::new(name), ToolSource::Builtin);
    spec.idempotent = idempotent;
    spec.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    spec
}

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> ToolSpec {
        spec("echo", true, &["read"])
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let args = args.to_value();
        self.0.record("echo", &context, &args);
        let result = match args["bytes"].as_u64() {
            Some(bytes) => json!("x".repeat(usize::try_from(bytes).unwrap())),
            None => args,
        };
        Ok(ToolSuccess::new(result))
    }
}

#[async_trait]
impl Tool for Fail {
    fn spec(&self) -> ToolSpec {
        spec("fail", true, &["read"])
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let args = args.to_value();
        self.0.record("fail", &context, &args);
        match args["times"].as_u64() {
            Some(times) if u64::from(context.attempt) > times => Ok(ToolSuccess::new(json!("at last"))),
            Some(_) => Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, "not yet").retryable()),
            None => Err(ToolFailure::new(ToolErrorKind::ToolFailed, "it is broken")),
        }
    }
}

#[async_trait]
impl Tool for Gate {
    fn spec(&self) -> ToolSpec {
        spec("gate", false, &["write"])
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        self.watch.record("gate", &context, &args.to_value());
        self.begun.send(context.call_id.clone()).ok();
        tokio::select! {
            permit = self.permits.acquire() => {
                permit.unwrap().forget();
                Ok(ToolSuccess::new(json!("through")))
            }
            () = context.cancel.cancelled() => {
                Err(ToolFailure::new(ToolErrorKind::Cancelled, "stopped at the gate"))
            }
        }
    }
}

#[async_trait]
impl Tool for Report {
    fn spec(&self) -> ToolSpec {
        spec("report", false, &["read"])
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let args = args.to_value();
        self.0.record("report", &context, &args);
        context.progress.report(Progress::message("reading").of(1.0, 4.0));
        context.progress.report(Progress::message("writing").of(3.0, 4.0));
        let key = context.secrets.secret(&SecretRef::Secret("report.key".to_owned())).await?;
        // A small image, unless a large one is asked for.
        let base64 = match args["imageBytes"].as_u64() {
            Some(bytes) => BASE64_STANDARD.encode(incompressible(usize::try_from(bytes).unwrap())),
            None => "iVBORw0KGgo=".to_owned(),
        };
        let image = Content::Image { format: ImageFormat::Png, source: ImageSource::Bytes(base64) };
        let pages = args["pages"].as_u64().unwrap_or(1);
        let mut success = ToolSuccess::new(json!({"pages": pages, "keyLength": key.expose_secret().len()}));
        success.content = vec![Part::text("Report. ".repeat(usize::try_from(pages).unwrap())), image.into()];
        Ok(success)
    }
}

/// Counts how often each key occurs.
pub(crate) fn tally<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut tally = BTreeMap::new();
    for item in items {
        *tally.entry(item).or_default() += 1;
    }
    tally
}

/// Bytes that take as much on disk as they are, whatever compresses them.
pub(crate) fn incompressible(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(&mut next).take(bytes).collect()
}
