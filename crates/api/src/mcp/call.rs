//! Calls of tools: a call starts a run, or continues one, and follows it.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use http::StatusCode;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use windlass_core::{
    agent::AgentDefinition,
    awaits::{AwaitKind, AwaitView},
    canonical::Digest,
    envelope::AnswerBody,
    ids::{AwaitId, RunId},
};
use windlass_store::StoreError;

use super::{
    answering,
    content::Answer,
    elicit,
    era::{Client, Era},
    follow::{Follower, Seen, progress},
    message::{Failure, Request},
    outcome::{self, Ending},
    reply::{Context, Reply},
    state::{ANSWER_WITHIN, Asked, Question, StateKey},
    tasks, tools,
    tools::Arguments,
};
use crate::{
    error::ApiError,
    routes::{control, launch::launch, runs},
    spec::parse_run,
};

/// A client that may repeat a call sends the same text in both: the repeat starts no second run.
pub(super) const IDEMPOTENCY_KEY: &str = "windlass/idempotencyKey";
const IDEMPOTENCY_KEY_CHARS: usize = 256;

/// A run that ends within this time is no task.
const SOON: Duration = Duration::from_millis(250);

/// The run of a call that is followed.
pub(super) struct Call {
    context: Context,
    follower: Follower,
    state_key: Arc<StateKey>,
    tool: String,
    arguments: Digest,
    /// The tool has an output schema.
    structured: bool,
    progress_token: Option<Value>,
    /// The client can read messages before the result.
    streaming: bool,
    unsent: VecDeque<Value>,
    ended: Option<Ending>,
    leaving: Leaving,
}

/// What happens in a call.
pub(super) enum Step {
    /// A notification or a request, before the result.
    Message(Value),
    Result(Value),
}

/// Cancels the run of a call when its client leaves, which is how clients of revision 2026-07-28 cancel a call.
struct Leaving {
    context: Context,
    run: Option<RunId>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let context = self.context.clone();
        tokio::spawn(async move {
            if let Err(error) = cancel(&context, &run, "the MCP client closed the connection").await {
                tracing::warn!(%run, error = %error.message, "cannot cancel the run of a client that has left");
            }
        });
    }
}

/// Cancels a run; one that has ended is not changed.
pub(super) async fn cancel(context: &Context, run: &RunId, reason: &str) -> crate::error::Result<()> {
    let row = runs::find(&context.app, &context.caller, run.as_str()).await?;
    control::stop(&context.app, &context.caller, &row, Some(reason)).await.map(|_| ())
}

/// The run that a call is about.
struct Target {
    run: RunId,
    answered: HashSet<AwaitId>,
    /// The run ends with the call, if the client leaves.
    cancellable: bool,
}

/// `tools/call`.
pub(super) async fn call(context: &Context, request: &Request) -> Result<Reply, Failure> {
    let name = request.required_text("name")?;
    let tools = tools::offered(&context.app.agents, &context.caller);
    let Some((_, agent)) = tools.into_iter().find(|(tool, _)| tool == name) else {
        let shown: String = name.chars().take(64).collect();
        return Err(Failure::params(format!("there is no tool {shown:?}; tools/list has the tools of this key")));
    };
    let arguments = match Arguments::parse(request.params.get("arguments")) {
        Ok(arguments) => arguments,
        Err(problem) => return Ok(Reply::Result(outcome::failed(None, "invalid_request", &problem))),
    };
    let digest = Digest::of_json(&request.params["arguments"]);
    let state_key = context.state_key().await?;
    let target = match request.text("requestState") {
        Some(sealed) => {
            let now = (context.app.clock)();
            let asked = Asked::open(&state_key, &context.caller, sealed, (name, digest), now)?;
            let responses = &request.params["inputResponses"];
            let known = |key: &str| asked.keys.iter().any(|asked| asked == key);
            let answered = answering::give(&context.app, &context.caller, &asked.run, known, responses).await?;
            Target { run: asked.run, answered, cancellable: true }
        }
        None => match begin(context, request, agent, &arguments).await {
            Ok(target) => target,
            Err(error) => return refused(error),
        },
    };
    let leaving = Leaving {
        context: context.clone(),
        run: Some(target.run.clone()).filter(|_| target.cancellable && context.era != Era::Legacy),
    };
    let store = Arc::clone(context.app.ops.store());
    let mut call = Call {
        context: context.clone(),
        follower: Follower::new(store, target.run, target.answered),
        state_key,
        tool: name.to_owned(),
        arguments: digest,
        structured: tools::object_schema(agent).is_some(),
        progress_token: request.meta("progressToken").filter(|token| token.is_string() || token.is_number()).cloned(),
        streaming: context.streaming,
        unsent: VecDeque::new(),
        ended: None,
        leaving,
    };
    if let Era::Modern(Client { tasks: true, .. }) = context.era {
        call.detach();
        return Ok(Reply::Result(match call.ends_soon().await? {
            Some(result) => result,
            None => tasks::created(context, call.run()).await?,
        }));
    }
    Ok(Reply::Live(Box::new(call)))
}

/// The model behind the client can correct what it sent; the rest is the client's or the server's problem.
fn refused(error: ApiError) -> Result<Reply, Failure> {
    match error.status {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::PAYLOAD_TOO_LARGE => {
            Ok(Reply::Result(outcome::failed(None, error.code, &error.message)))
        }
        _ => Err(error.into()),
    }
}

/// Starts a run, or continues the one that the session names.
async fn begin(
    context: &Context,
    request: &Request,
    agent: &AgentDefinition,
    arguments: &Arguments,
) -> crate::error::Result<Target> {
    // Only ids of runs have this character.
    if let Some(run) = arguments.session.as_deref().filter(|session| session.contains('~')) {
        return continued(context, agent, run, &arguments.message).await;
    }
    let chosen = chosen_id(context, request)?;
    let body = tools::run_body(agent, arguments, &chosen.id);
    let accepted = context.app.apart(arguments.message.len(), move || parse_run(&body)).await??;
    let taken = launch(&context.app, &context.caller, accepted, None).await?;
    Ok(Target { run: RunId::new(taken.run_id), answered: HashSet::new(), cancellable: !chosen.repeatable })
}

/// Continues a run that waits: the message answers its question.
async fn continued(
    context: &Context,
    agent: &AgentDefinition,
    run: &str,
    message: &str,
) -> crate::error::Result<Target> {
    let Context { app, caller, .. } = context;
    let row = runs::find(app, caller, run).await?;
    if row.agent_id != agent.id || row.status.is_terminal() {
        let message = "session: this run has ended, or is of another agent; call the tool without this session";
        return Err(ApiError::conflict("run_terminal", message));
    }
    let mut answered = HashSet::new();
    let items = answering::pending(app, caller, &row.id).await?;
    if let Some(item) = items.iter().find(|item| item.kind == AwaitKind::Clarification) {
        let body = AnswerBody::Clarification { answer: message.to_owned() };
        answering::give_one(app, caller, &row.id, item, body).await?;
        answered.insert(item.id.clone());
    }
    Ok(Target { run: row.id, answered, cancellable: false })
}

struct Chosen {
    id: String,
    /// The client may repeat the call, so the run must outlive the connection.
    repeatable: bool,
}

fn chosen_id(context: &Context, request: &Request) -> crate::error::Result<Chosen> {
    let hashed = |parts: [&str; 3]| {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        format!("mcp-{}", hex::encode(&hash.finalize()[..16]))
    };
    if let Some(key) = request.meta(IDEMPOTENCY_KEY) {
        let key = key.as_str().filter(|key| (1..=IDEMPOTENCY_KEY_CHARS).contains(&key.chars().count()));
        let key = key.ok_or_else(|| {
            let limit = format!("must be a text of 1 to {IDEMPOTENCY_KEY_CHARS} characters");
            ApiError::invalid(format!("_meta[\"{IDEMPOTENCY_KEY}\"]: {limit}"))
        })?;
        return Ok(Chosen { id: hashed(["key", &context.caller.key_id, key]), repeatable: true });
    }
    if let Some(id) = context.run_of_request(&request.id) {
        return Ok(Chosen { id, repeatable: true });
    }
    Ok(Chosen { id: format!("mcp-{}", uuid::Uuid::now_v7().simple()), repeatable: false })
}

impl Context {
    /// The id of the run of a request in a session. A repeat of the request, and its cancellation, find the same run.
    pub(super) fn run_of_request(&self, id: &Value) -> Option<String> {
        let session = self.session.as_ref()?;
        let hash = Sha256::digest(format!("session {} request {id}", session.id));
        Some(format!("mcp-{}", hex::encode(&hash[..16])))
    }
}

impl Call {
    pub(super) fn run(&self) -> &RunId {
        &self.follower.run
    }

    /// The result, if the run has ended before a client could ask for its task.
    async fn ends_soon(&mut self) -> crate::error::Result<Option<Value>> {
        let ended = timeout(SOON, async {
            loop {
                match self.follower.next().await? {
                    Seen::Event(_) => {}
                    Seen::Waiting(_) => return Ok(None),
                    Seen::Ended(ending) => return self.result(&ending).await.map(Some),
                }
            }
        });
        Ok(ended.await.unwrap_or(Ok::<_, StoreError>(None))?)
    }

    async fn result(&self, ending: &Ending) -> Result<Value, StoreError> {
        let answer = Answer::of(self.context.app.store(), self.run()).await?;
        Ok(outcome::of_run(self.run(), ending, &answer, self.structured))
    }

    /// The run continues without the client.
    pub(super) fn detach(&mut self) {
        self.leaving.run = None;
    }

    /// The next step. A step that is given up halfway, because the connection needs a keep-alive, is not lost.
    pub(super) async fn step(&mut self) -> Result<Step, StoreError> {
        loop {
            if let Some(message) = self.unsent.pop_front() {
                return Ok(Step::Message(message));
            }
            if let Some(ending) = &self.ended {
                let result = self.result(ending).await?;
                self.detach();
                return Ok(Step::Result(result));
            }
            match self.follower.next().await? {
                Seen::Event(event) => {
                    let token = self.progress_token.as_ref().filter(|_| self.streaming);
                    self.unsent.extend(token.and_then(|token| progress(token, &event)));
                }
                Seen::Waiting(items) => {
                    if let Some(result) = self.ask(&items) {
                        self.detach();
                        return Ok(Step::Result(result));
                    }
                }
                Seen::Ended(ending) => {
                    self.ended = Some(ending);
                }
            }
        }
    }

    /// The result that asks, or says that the run waits; `None` if the client is asked before the result.
    fn ask(&mut self, items: &[AwaitView]) -> Option<Value> {
        let forms: Vec<(String, Value)> =
            items.iter().filter_map(|item| Some((elicit::key(item), elicit::request(item)?))).collect();
        match self.context.era {
            Era::Modern(client) if client.elicitation && !forms.is_empty() => Some(self.input_required(forms)),
            Era::Legacy if self.streaming && self.context.can_elicit() && !forms.is_empty() => {
                for (key, form) in forms {
                    let question = Question { run: self.run().clone(), key };
                    let id = self.state_key.seal(&self.context.caller, &question);
                    let mut form = form;
                    form["jsonrpc"] = json!("2.0");
                    form["id"] = json!(id);
                    self.unsent.push_back(form);
                }
                None
            }
            _ => Some(outcome::waiting(self.run(), &how_to_continue(self.run(), items))),
        }
    }

    fn input_required(&self, forms: Vec<(String, Value)>) -> Value {
        let asked = Asked {
            run: self.run().clone(),
            tool: self.tool.clone(),
            arguments: self.arguments,
            keys: forms.iter().map(|(key, _)| key.clone()).collect(),
            expires_at: (self.context.app.clock)().after(ANSWER_WITHIN),
        };
        json!({
            "resultType": "input_required",
            "inputRequests": forms.into_iter().collect::<Map<_, _>>(),
            "requestState": self.state_key.seal(&self.context.caller, &asked),
            "_meta": {outcome::RUN_KEY: self.run()},
        })
    }
}

/// For clients that cannot ask a person: what the run waits for, and what to do.
fn how_to_continue(run: &RunId, items: &[AwaitView]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let id = &item.id;
        lines.push(elicit::message(item));
        lines.push(match item.kind {
            AwaitKind::Clarification => format!(
                "The run waits for this answer. Call the tool again with session {:?} and the answer as message.",
                run.as_str()
            ),
            AwaitKind::Confirmation => format!(
                "The run waits for a person's approval: `windlass runs approve {run} {id}` or `windlass runs deny {run} {id}`."
            ),
            AwaitKind::Questions | AwaitKind::ExternalTools | AwaitKind::Input => format!(
                "The run waits for results that cannot be given here. A program or a person sends them with `windlass runs answer {run} {id}` or over the API."
            ),
        });
    }
    if items.iter().all(|item| item.kind != AwaitKind::Clarification) {
        let run = run.as_str();
        lines.push(format!("Then call the tool again with session {run:?} to wait for the result."));
    }
    lines.join("\n")
}
