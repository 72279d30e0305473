//! `windlass tools test`: one call, in as many rounds as its tool needs.

use std::{
    collections::VecDeque,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{ToolSource, nearest},
    awaits::{AwaitKind, AwaitView, ExpiryOutcome},
    canonical::CanonicalJson,
    envelope::{Continuation, Resumption},
    ids::{AwaitId, CallId, RunId},
    run::read_inputs,
    schema::ArgumentCheck,
};
use windlass_tools::{CallContext, ProgressSink, ToolFailure, ToolReply, ToolSuccess};

use super::{Failure, Output, Workbench, usage};
use crate::{
    cli::{failed, now},
    failure::FAILED,
    render::await_lines,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass tools test agent.toml files_read_file '{\"path\": \"/srv/notes.txt\"}'
  windlass tools test agent.toml shop_order '{\"item\": 3}' --answer '{\"size\": \"M\"}'

The tool is executed for real, once, in this process. Nothing asks for an approval. Tools of kind agent, external and
temporal belong to a run: start one instead.")]
pub struct TestArgs {
    /// Agent file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    agent: PathBuf,

    /// Name of the tool, as `tools list` shows it
    tool: String,

    /// Arguments, as a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,

    /// Answer to the tool's next request for input; may be repeated
    #[arg(long = "answer", value_name = "TEXT")]
    answers: Vec<String>,

    /// Timeout of the call [default: the tool's own, or 60s]
    #[arg(long, value_name = "DURATION", value_parser = crate::cli::values::span)]
    timeout: Option<Duration>,
}

pub(super) async fn run(bench: &Workbench, args: &TestArgs, out: Output) -> Result<ExitCode, Failure> {
    let (definition, problems) = bench.agent(&args.agent).await?;
    problems.iter().for_each(|problem| out.note(problem));
    let Some(spec) = definition.tools.iter().find(|tool| tool.name.as_str() == args.tool) else {
        let known = || definition.tools.iter().map(|tool| tool.name.as_str());
        let advice = match nearest(&args.tool, known()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("it has {}", known().collect::<Vec<_>>().join(", ")),
        };
        return Err(usage(format!("agent {} has no tool {:?}; {advice}", definition.id, args.tool)));
    };
    if matches!(
        spec.source,
        ToolSource::Agent { .. } | ToolSource::Client { .. } | ToolSource::External { .. } | ToolSource::Temporal(_)
    ) {
        return Err(usage(format!("{} is executed by a run's workflow; start a run with this agent", spec.name)));
    }
    let given: Value = serde_json::from_str(&args.arguments)
        .map_err(|error| usage(format!("the arguments are not JSON: {error}; write a JSON object")))?;
    let given = ArgumentCheck::of(spec.schema()).apply(given).map_err(|hint| {
        let issues = hint.issues.iter().map(|issue| format!("{}: {}", issue.field, issue.message));
        usage(format!("the arguments do not fit the tool's schema: {}", issues.collect::<Vec<_>>().join("; ")))
    })?;
    let own = spec.timeout_ms.map(|timeout| timeout.as_duration());
    let timeout = args.timeout.or(own).unwrap_or(Duration::from_secs(60));
    let began = Instant::now();
    let mut answers = VecDeque::from(args.answers.clone());
    let mut resumption = None;
    let mut round = 1;
    let called = loop {
        let context = context(bench, timeout, resumption.take());
        let replied = bench.tools.call(&definition, spec, context, CanonicalJson::from(given.clone())).await;
        let redaction = bench.secrets.redaction();
        match replied {
            Ok(ToolReply::Continue(continuation)) => match redaction.continuation(continuation) {
                Ok(continuation) => {
                    round += 1;
                    resumption = Some(next_round(round, &continuation, &mut answers, out)?);
                }
                Err(failure) => break Err(failure),
            },
            Ok(ToolReply::Done(success)) => break Ok(redaction.success(success)),
            Err(failure) => break Err(redaction.failure(failure)),
        }
    };
    report(called, began.elapsed(), out)
}

fn context(bench: &Workbench, timeout: Duration, resumption: Option<Resumption>) -> CallContext {
    CallContext {
        workspace: bench.workspace.clone(),
        session_id: None,
        run_id: RunId::new(format!("tools-{}", std::process::id())),
        call_id: CallId::new("call-0-0"),
        attempt: 1,
        deadline: Some(Instant::now() + timeout),
        progress: ProgressSink::none(),
        secrets: Arc::clone(&bench.secrets) as _,
        cancel: CancellationToken::new(),
        draining: CancellationToken::new(),
        resumption,
    }
}

/// The next round, with the next answer of the command line if the tool asks for input.
fn next_round(
    round: u32,
    continuation: &Continuation,
    answers: &mut VecDeque<String>,
    out: Output,
) -> Result<Resumption, Failure> {
    let mut next = Resumption {
        round,
        state: continuation.state.clone(),
        responses: Default::default(),
        repeatable: continuation.repeatable,
    };
    if continuation.inputs.is_empty() {
        return Ok(next);
    }
    let item = AwaitView {
        id: AwaitId::new("input"),
        kind: AwaitKind::Input,
        title: None,
        prompt: continuation.inputs.iter().map(|input| input.prompt.as_str()).collect::<Vec<_>>().join(" "),
        calls: Vec::new(),
        questions: Vec::new(),
        inputs: continuation.inputs.clone(),
        opened_at: now(),
        expires_at: None,
        on_expiry: ExpiryOutcome::Replan,
        default_answer: None,
        roles: Vec::new(),
        four_eyes: false,
        edit: false,
        child: None,
    };
    let Some(answer) = answers.pop_front() else {
        await_lines(&item, out.note_paint()).into_iter().for_each(|line| out.note(line));
        return Err(failed("the tool asks for input; call it again with --answer for each request"));
    };
    next.responses = read_inputs(&item, &answer).map_err(|problem| usage(format!("--answer {answer:?}: {problem}")))?;
    Ok(next)
}

fn report(called: Result<ToolSuccess, ToolFailure>, took: Duration, out: Output) -> Result<ExitCode, Failure> {
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match called {
        Ok(success) => {
            let document = json!({
                "ok": true, "result": success.result.to_value(), "content": success.content, "bounds": success.bounds,
                "serverData": success.server_data, "durationMs": took,
            });
            out.print(&document, || {
                let mut lines = Vec::new();
                let result = success.result.to_value();
                match &result {
                    Value::Null if !success.content.is_empty() => {}
                    Value::String(text) => lines.push(text.clone()),
                    other => lines.push(serde_json::to_string_pretty(other).unwrap_or_default()),
                }
                lines.extend(success.content.iter().map(|part| serde_json::to_string(part).unwrap_or_default()));
                lines.join("\n")
            })?;
            if !out.json {
                out.note(format!("ok in {took} ms"));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            let document = json!({
                "ok": false, "error": failure.error, "retryHint": failure.hint, "retryable": failure.retryable,
                "durationMs": took,
            });
            out.print(&document, || format!("failed in {took} ms: {}", failure.error.message))?;
            Ok(ExitCode::from(FAILED))
        }
    }
}
