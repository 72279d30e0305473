//! `windlass runs answer | approve | deny`.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use serde_json::{Value, json};
use windlass_core::{
    approval::{GrantArguments, GrantLevel, GrantRequest},
    awaits::{AwaitKind, AwaitView},
    body::Body,
    canonical::{CanonicalJson, Digest},
    envelope::{Actor, Answer, AnswerBody, AnswerReply, ProvidedToolResult, ToolError, ToolErrorKind},
    event::EventBody,
    ids::{AwaitId, CallId, RunId},
    limits::RESULT_BYTES,
    time::Millis,
};

use super::RunArg;
use crate::{
    cli::{Failure, exit, person::Person, reach::Reach, refused, usage, values},
    render::await_lines,
};

#[derive(Debug, Args)]
pub(super) struct AwaitArgs {
    #[command(flatten)]
    run: RunArg,

    /// Id of the await, as shown by `runs awaits`
    #[arg(value_name = "AWAIT", value_parser = values::await_id)]
    await_id: AwaitId,

    /// Send a Temporal signal: it needs no worker and has no reply; the run's log has the outcome
    #[arg(long)]
    pub(super) signal: bool,

    /// Role that you answer in; may be repeated. Only without an API server, which knows the roles of your key
    #[arg(long = "role", value_name = "NAME", value_parser = values::role)]
    roles: Vec<String>,

    #[command(flatten)]
    pub(super) person: Person,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass runs answer run-1 await-1 'Only the team'
  windlass runs answer run-1 await-2 --result call-1-0='{\"verdict\": \"fine\"}'
  windlass runs answer run-1 await-2 --result call-1-0=@verdict.json --error call-1-1='not found'

An await for calls needs one result or error for each call. The run replies at once. If the answer is not accepted, the
run is unchanged and the exit code is 5.")]
pub struct AnswerArgs {
    #[command(flatten)]
    pub(super) to: AwaitArgs,

    /// Answer to a question
    #[arg(required_unless_present_any = ["results", "errors"], conflicts_with_all = ["results", "errors"])]
    text: Option<String>,

    /// Result of a call, as JSON or @FILE; may be repeated
    #[arg(long = "result", id = "results", value_name = "CALL=JSON", value_parser = values::call_result)]
    results: Vec<(CallId, Value)>,

    /// Error of a call, as text for the model; may be repeated
    #[arg(long = "error", id = "errors", value_name = "CALL=TEXT", value_parser = values::call_error)]
    errors: Vec<(CallId, String)>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass runs approve run-1 await-3
  windlass runs approve run-1 await-3 --digest 5f70…c1 --as ann
  windlass runs approve run-1 await-3 --edit '{\"amount\": 20}'
  windlass runs approve run-1 await-3 --grant session --same /to --grant-for 7d

The call, its arguments and their digest are shown first. The approval is bound to the digest: it is rejected if the run
waits with other arguments. Without a terminal, confirm with --yes or --digest. A grant is listed by `approvals list` and
ended by `approvals revoke`.")]
pub struct ApproveArgs {
    #[command(flatten)]
    pub(super) to: AwaitArgs,

    /// Digest of the arguments that you approve [default: of the arguments shown]
    #[arg(long, value_parser = values::digest)]
    digest: Option<Digest>,

    /// Execute the call with these arguments instead, as a JSON object; only if the await allows it
    #[arg(long, value_name = "JSON")]
    edit: Option<String>,

    /// Do not ask again about calls of this tool: in this run, in its session, or in all runs of its agent
    #[arg(long, value_name = "run|session|agent", value_parser = level, conflicts_with = "edit")]
    grant: Option<GrantLevel>,

    /// The grant is for calls with the same value at this JSON pointer, for example /to; may be repeated. `*` stands for
    /// exactly the same arguments [default: any arguments]
    #[arg(long, value_name = "POINTER", requires = "grant")]
    same: Vec<String>,

    /// How long the grant holds, for example 7d [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = values::age, requires = "grant")]
    grant_for: Option<Duration>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass runs deny run-1 await-3
  windlass runs deny run-1 await-3 --reason 'Not on a Friday: ask again on Monday'

The model gets the reason and plans again. The reason is in the run's log.")]
pub struct DenyArgs {
    #[command(flatten)]
    pub(super) to: AwaitArgs,

    /// Reason, for the model and the log; at most 2048 bytes
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

fn level(text: &str) -> Result<GrantLevel, String> {
    match text {
        "run" => Ok(GrantLevel::Run),
        "session" => Ok(GrantLevel::Session),
        "agent" => Ok(GrantLevel::Agent),
        _ => Err("write run, session or agent".to_owned()),
    }
}

pub(super) async fn answer(reach: &Reach, args: AnswerArgs) -> Result<ExitCode, Failure> {
    let body = match args.text {
        Some(answer) => AnswerBody::Clarification { answer },
        None => AnswerBody::ToolResults { results: provided(args.results, args.errors)? },
    };
    let actor = args.to.person.actor();
    deliver(reach, args.to, actor, body).await
}

/// One entry per call. The transport stores results that are too large to be sent inline.
fn provided(results: Vec<(CallId, Value)>, errors: Vec<(CallId, String)>) -> Result<Vec<ProvidedToolResult>, Failure> {
    let mut provided = Vec::new();
    for (call, value) in results {
        let result = CanonicalJson::from(value);
        let bytes = result.bytes();
        if bytes > RESULT_BYTES as u64 {
            return Err(usage(format!("the result of {call} is {bytes} bytes; send at most {RESULT_BYTES}")));
        }
        provided.push(ProvidedToolResult::new(call).with_result(&Body::Inline(result)));
    }
    for (call, message) in errors {
        let error = ToolError::new(ToolErrorKind::ToolFailed, message);
        provided.push(ProvidedToolResult { error: Some(error), ..ProvidedToolResult::new(call) });
    }
    Ok(provided)
}

pub(super) async fn approve(reach: &Reach, args: ApproveArgs) -> Result<ExitCode, Failure> {
    let ApproveArgs { to, digest, edit, grant, same, grant_for, yes } = args;
    let grant = grant.map(|scope| GrantRequest {
        scope,
        arguments: match same.as_slice() {
            [] => GrantArguments::Any,
            [all] if all == "*" => GrantArguments::Same,
            pointers => GrantArguments::At(pointers.to_vec()),
        },
        expires_in_ms: grant_for.map(|span| Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))),
    });
    let edit = edit.as_deref().map(CanonicalJson::parse).transpose();
    let edit = edit.map_err(|error| usage(format!("--edit is not JSON: {error}; write the arguments as an object")))?;
    let actor = to.person.required()?;
    let item = opened(reach, &to.run.run, &to.await_id).await?.filter(|item| item.kind == AwaitKind::Confirmation);
    for line in item.iter().flat_map(|item| await_lines(item, reach.out().note_paint())) {
        reach.out().note(line);
    }
    let digest = digest.or_else(|| item.as_ref().and_then(|item| item.calls.first()).map(|call| call.digest));
    let Some(digest) = digest else {
        let AwaitArgs { run, await_id, .. } = &to;
        return Err(refused(format!("{} has no call to approve in {await_id}; see `windlass runs awaits`", run.run)));
    };
    if !yes && args.digest.is_none() && !agreed(&to.await_id, &actor)? {
        reach.out().note("not approved; to deny the call, use `windlass runs deny`");
        return Ok(ExitCode::from(exit::FAILED));
    }
    let body = match edit {
        Some(arguments) => AnswerBody::EditedApproval { digest, arguments, reason: None },
        None => AnswerBody::Confirmation { approved: true, digest: Some(digest), reason: None, grant },
    };
    deliver(reach, to, actor, body).await
}

/// The await with all arguments, open or closed.
async fn opened(reach: &Reach, run: &RunId, id: &AwaitId) -> Result<Option<AwaitView>, Failure> {
    reach.row(run).await?;
    let events = reach.events(run, 0).await?;
    Ok(events.iter().find_map(|event| match event.body() {
        Ok(EventBody::AwaitOpened { item } | EventBody::ChildAwaitOpened { item }) if item.id == *id => Some(item),
        _ => None,
    }))
}

fn agreed(id: &AwaitId, actor: &Actor) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(usage("stdin is not a terminal: check the arguments above and add --yes or --digest"));
    }
    write!(io::stderr(), "approve {id} as {actor}? [y/N] ")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

pub(super) async fn deny(reach: &Reach, args: DenyArgs) -> Result<ExitCode, Failure> {
    let actor = args.to.person.required()?;
    deliver(reach, args.to, actor, AnswerBody::denial(args.reason)).await
}

async fn deliver(reach: &Reach, to: AwaitArgs, actor: Actor, body: AnswerBody) -> Result<ExitCode, Failure> {
    let AwaitArgs { run: RunArg { run }, await_id, signal, roles, .. } = to;
    let answer = Answer::new(await_id.clone(), Actor { roles, ..actor }, body);
    let has_ended = async || Ok::<_, Failure>(reach.row(&run).await?.is_some_and(|row| row.status.is_terminal()));
    if signal && !has_ended().await? {
        reach.signal(&run, answer).await?;
        let message = "sent as a signal; when a worker has processed it, the run's log has the outcome";
        let document = json!({"runId": run, "awaitId": await_id, "status": "sent", "message": message});
        reach.out().print(&document, || format!("{await_id} {message}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let reply = reach.send(&run, answer).await?;
    let document = json!({"runId": run, "awaitId": await_id, "status": reply.status, "message": reply.message});
    reach.out().print(&document, || describe(&await_id, &reply))?;
    Ok(if reply.accepted() { ExitCode::SUCCESS } else { ExitCode::from(exit::REFUSED) })
}

fn describe(id: &AwaitId, reply: &AnswerReply) -> String {
    if reply.accepted() {
        return format!("{id} accepted");
    }
    let status = serde_json::to_value(reply.status).unwrap_or_default();
    format!("{id} not accepted ({}): {}", status.as_str().unwrap_or_default(), reply.message)
}

#[cfg(test)]
mod tests {
    use windlass_core::envelope::AnswerStatus;

    use super::*;

    #[test]
    fn a_rejected_answer_is_printed_with_status_and_reason() {
        let reply = |status| AnswerReply::new(status, "it expired");
        assert_eq!(describe(&"await-1".into(), &reply(AnswerStatus::Accepted)), "await-1 accepted");
        assert_eq!(
            describe(&"await-1".into(), &reply(AnswerStatus::Expired)),
            "await-1 not accepted (expired): it expired"
        );
    }
}
