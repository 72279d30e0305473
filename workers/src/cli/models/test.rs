//! `windlass models test`: one streamed call with a tool. It costs what it prints.

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use clap::Args;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::ModelParameters,
    cost::Cost,
    ids::RunId,
    message::{Content, Message},
    secret::SecretRef,
};
use windlass_models::{
    Delta, DeltaKind, DeltaSink, ErrorClass, ModelError, ModelRequest, ModelResponse, Resolved, ToolChoice,
    ToolDeclaration,
};
use windlass_store::Reader;

use super::{Failure, Global, Output};
use crate::{
    cli::{exit, usage, values},
    config::Provider,
    service::{Missing, ModelCatalogue},
};

/// The tool that is offered.
const TOOL: &str = "clock";
const SYSTEM: &str = "This is a test of the connection. Follow the instruction exactly.";
const PROMPT: &str = "Write the single word: ready. Then call the tool `clock` once.";
/// Enough for a model that thinks before it answers.
const MAX_OUTPUT: u32 = 4096;

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Model id (provider:model), or another name of a model from windlass.toml
    #[arg(value_name = "MODEL")]
    model: String,

    /// How long the call may take
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = values::span)]
    timeout: Duration,
}

pub(super) async fn run(
    global: &Global,
    catalogue: &ModelCatalogue,
    args: &TestArgs,
    out: Output,
) -> Result<ExitCode, Failure> {
    let resolved = catalogue.registry().resolve(&args.model).map_err(|error| usage(error.to_string()))?;
    let (provider, prices) = (global.config().providers.get(&resolved.provider), resolved.spec.prices);
    let id = resolved.id();
    let tested = match key(global, &resolved).await? {
        Ok(credentials) => call(resolved, credentials, args.timeout).await,
        Err(error) => Err(error),
    };
    match tested {
        Ok(tested) => {
            let cost = prices.map(|prices| prices.cost(&tested.response.usage));
            out.print(&tested.document(&id, cost), || tested.text(&id, cost))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let next = next_step(error.class, &id, provider);
            out.print(&failure(&id, &error, &next), || {
                let status = error.api_status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
                let code = error.api_code.as_ref().map(|code| format!(", {code}")).unwrap_or_default();
                format!(
                    "{id}: FAILED\nError  {} ({}{status}{code})\nNext   {next}",
                    error.message,
                    error.class.as_str()
                )
            })?;
            Ok(ExitCode::from(exit::FAILED))
        }
    }
}

/// The key that the config has for the provider. The inner error is one that a run would have, too.
async fn key(global: &Global, resolved: &Resolved) -> Result<Result<Option<SecretString>, ModelError>, Failure> {
    let absent = |message: String| Ok(Err(ModelError::new(ErrorClass::Auth, message)));
    match &resolved.key {
        None => Ok(Ok(None)),
        Some(SecretRef::Env(name)) => match std::env::var(name).ok().filter(|value| !value.is_empty()) {
            Some(value) => Ok(Ok(Some(value.into()))),
            None => absent(format!("the environment has no variable {name}")),
        },
        Some(SecretRef::Secret(name)) => {
            let store = global.open_store(Missing::Refuse).await?;
            let Some(vault) = global.secret_keys()?.vault(store.port())? else {
                return absent("there is no key for secrets; set --secrets-key-file".to_owned());
            };
            let run = RunId::from("models-test");
            let read = vault.get(&global.workspace, name, Reader { run: &run, session: None }).await;
            store.close().await?;
            match read {
                Ok(value) => Ok(Ok(Some(value))),
                Err(error) => absent(error.to_string()),
            }
        }
    }
}

/// A call that was answered.
struct Tested {
    response: ModelResponse,
    deltas: usize,
    first: Option<Duration>,
    total: Duration,
}

async fn call(resolved: Resolved, credentials: Option<SecretString>, timeout: Duration) -> Result<Tested, ModelError> {
    let Resolved { model, provider, name, spec, .. } = resolved;
    let began = Instant::now();
    let request = ModelRequest {
        run_id: "models-test".into(),
        call_index: 0,
        attempt: 1,
        provider,
        model: name,
        system: SYSTEM.to_owned(),
        messages: Arc::new(vec![Message::user(PROMPT)]),
        tools: [ToolDeclaration {
            name: TOOL.into(),
            description: "Tells the time.".to_owned(),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }]
        .into(),
        tool_choice: ToolChoice::Auto,
        reasoning_level: None,
        output_schema: None,
        parameters: ModelParameters {
            max_output_tokens: Some(spec.max_output_tokens.map_or(MAX_OUTPUT, |most| most.min(MAX_OUTPUT))),
            ..ModelParameters::default()
        },
        spec,
        credentials,
        deadline: Some(began + timeout),
        cancel: CancellationToken::new(),
    };
    let mut sink = Watch { began, first: None, deltas: 0 };
    let response = model.respond(request, &mut sink).await?;
    Ok(Tested { response, deltas: sink.deltas, first: sink.first, total: began.elapsed() })
}

/// Counts deltas and notes when the first one with content came.
struct Watch {
    began: Instant,
    first: Option<Duration>,
    deltas: usize,
}

#[async_trait]
impl DeltaSink for Watch {
    async fn push(&mut self, delta: Delta) -> Result<(), ModelError> {
        self.deltas += 1;
        if !matches!(delta.kind, DeltaKind::CallDone) {
            self.first.get_or_insert_with(|| self.began.elapsed());
        }
        Ok(())
    }
}

impl Tested {
    fn called_the_tool(&self) -> bool {
        let is_call = |content: &Content| matches!(content, Content::ToolUse { name, .. } if name.as_str() == TOOL);
        self.response.parts.iter().any(|part| is_call(&part.content))
    }

    /// A provider that counts tokens has read the prompt and written something.
    fn has_usage(&self) -> bool {
        self.response.usage.input_tokens > 0 && self.response.usage.output_tokens > 0
    }

    /// Tokens of output for each second after the first.
    fn tokens_per_second(&self) -> Option<f64> {
        let writing = self.total.checked_sub(self.first?)?.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a speed for people")]
        let tokens = self.response.usage.output_tokens as f64;
        (writing > 0.001 && tokens > 0.0).then(|| tokens / writing)
    }

    fn works(&self) -> [(&'static str, bool); 3] {
        [("stream", self.deltas > 0), ("tool", self.called_the_tool()), ("usage", self.has_usage())]
    }

    fn document(&self, id: &str, cost: Option<Cost>) -> Value {
        let works: serde_json::Map<String, Value> =
            self.works().into_iter().map(|(what, works)| (what.to_owned(), works.into())).collect();
        json!({
            "model": id, "ok": true, "works": works, "stop": self.response.stop.as_str(), "usage": self.response.usage,
            "firstTokenMs": self.first.map(|first| first.as_millis() as u64),
            "totalMs": self.total.as_millis() as u64,
            "tokensPerSecond": self.tokens_per_second(), "costUsd": cost, "responseId": self.response.response_id,
        })
    }

    fn text(&self, id: &str, cost: Option<Cost>) -> String {
        let usage = &self.response.usage;
        let first = self.first.map_or_else(|| "none came".to_owned(), |first| format!("{} ms", first.as_millis()));
        let speed = self
            .tokens_per_second()
            .map_or_else(|| "not measurable".to_owned(), |speed| format!("{speed:.0} tokens/s"));
        let cost = cost.map_or_else(|| "unknown: no prices for this model".to_owned(), |cost| cost.to_string());
        let works = self.works().map(|(what, works)| format!("{what} {}", if works { "yes" } else { "NO" })).join(", ");
        let lines = [
            format!("{id}: ok"),
            format!("First token  {first}"),
            format!("Total        {} ms", self.total.as_millis()),
            format!("Speed        {speed}"),
            format!(
                "Tokens       {} in ({} cached), {} out ({} reasoning)",
                usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens
            ),
            format!("Cost         {cost}"),
            format!("Stop         {}", self.response.stop.as_str()),
            format!("Works        {works}"),
        ];
        lines.join("\n")
    }
}

fn failure(id: &str, error: &ModelError, next: &str) -> Value {
    json!({
        "model": id, "ok": false, "next": next,
        "error": {
            "class": error.class, "message": error.message, "retryable": error.retryable,
            "apiStatus": error.api_status, "apiCode": error.api_code,
            "retryAfterMs": error.retry_after.map(|wait| wait.as_millis() as u64),
        },
    })
}

/// What to do about a failure of this class.
fn next_step(class: ErrorClass, id: &str, provider: Option<&Provider>) -> String {
    let at = provider.map(|provider| format!(" at {}", provider.base_url)).unwrap_or_default();
    match class {
        ErrorClass::Auth => match provider.and_then(|provider| provider.key.as_ref()) {
            Some(SecretRef::Env(name)) => format!("set {name} to a key that is valid{at}"),
            Some(SecretRef::Secret(name)) => {
                format!("set the key with `windlass secrets set {name}` to one that is valid{at}")
            }
            None => "the provider wants a key: add key = \"${env:NAME}\" to its section of windlass.toml".to_owned(),
        },
        ErrorClass::RateLimit => {
            "wait, or raise the limits of your account; requests_per_minute and tokens_per_minute of the provider in \
             windlass.toml keep workers below them"
                .to_owned()
        }
        ErrorClass::Server | ErrorClass::Overloaded | ErrorClass::UpstreamDeadline => {
            format!("check that the provider runs{at}, and try again")
        }
        ErrorClass::Timeout => format!(
            "check that the provider runs{at}; a slow one needs a longer --timeout here and a longer silence_timeout in \
             windlass.toml"
        ),
        ErrorClass::InvalidRequest | ErrorClass::StructuredOutputSchemaRejected => {
            format!("check the name of the model, and its capabilities in windlass.toml: [models.{id:?}]")
        }
        ErrorClass::ContextWindow | ErrorClass::Truncation => {
            format!("check context_window and max_output_tokens of [models.{id:?}] in windlass.toml")
        }
        ErrorClass::LocalTimeout | ErrorClass::Cancelled | ErrorClass::Unknown => {
            "try again; if it fails again, run with --log debug".to_owned()
        }
    }
}
