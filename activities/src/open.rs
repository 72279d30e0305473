//! `windlass.open`: the agent is found and pinned, the run is created, its transcript is seeded.

use serde_json::Value;
use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    agent::{AgentDefinition, MissingBuiltin, ToolTable},
    canonical::{CanonicalJson, Digest},
    envelope::{OpenInput, OpenOutput, RunInput, VERSION},
    event::{EventBody, NewEvent},
    ids::SessionId,
    message::{FallbackMark, Message},
    policy::AgentPolicy,
};
use windlass_store::NewRun;

use crate::{RunActivities, failures};

impl RunActivities {
    pub(crate) async fn open_run(&self, input: OpenInput) -> Result<OpenOutput, ActivityError> {
        let OpenInput { run: input, execution, .. } = input;
        self.check_owner(&input.run_id, input.installation.as_ref()).await?;
        let definition = self.completed(self.find(&input).await?)?;
        let definition = self.with_toolsets(definition, &input).await;
        let agent_digest = self.pin(&definition).await?;
        let tools = ToolTable::of(&definition).map_err(|error| failures::permanent("agent", error.to_string()))?;
        let policy = AgentPolicy { policy: definition.policy.clone(), guards: definition.guards.clone() };

        let messages = self.new_messages(&input).await?;
        // A sub-agent's run belongs to the session of its parent and has a conversation of its own.
        let continued = input.session_id.as_ref().filter(|_| input.depth == 0);
        if let Some(session) = continued {
            self.store.ensure_session(&input.workspace(), session).await.map_err(|error| failures::store(&error))?;
        }

        let own = input.model_id.clone().unwrap_or_else(|| definition.model.clone());
        let stuck = self.session_fallback(&input, continued, &own, &definition.fallback).await?;
        let primary_model_id = stuck.is_some().then(|| own.clone());
        let (model_id, fallback) = stuck.unwrap_or_else(|| (own, definition.fallback.clone()));
        let run = NewRun {
            id: input.run_id.clone(),
            workspace: input.workspace(),
            session: input.session_id.clone(),
            execution,
            agent_id: definition.id.clone(),
            agent_digest,
            model_id: model_id.clone(),
            parent: input.parent_run_id.clone(),
            parent_call: input.parent_tool_call_id.clone(),
            labels: input.labels.clone(),
            metadata: input.metadata.clone(),
            continues_session: continued.is_some(),
            messages,
            started: NewEvent::new(
                "started",
                EventBody::Started {
                    agent_id: definition.id.clone(),
                    workspace: input.workspace(),
                    session_id: input.session_id.clone(),
                    parent_run_id: input.parent_run_id.clone(),
                    parent_tool_call_id: input.parent_tool_call_id.clone(),
                    model_id: model_id.clone(),
                    labels: input.labels.clone(),
                    metadata: input.metadata.clone(),
                    started_by: input.started_by.clone(),
                },
            ),
        };
        let head = self.store.open_run(run).await.map_err(|error| failures::store(&error))?;
        Ok(OpenOutput {
            v: VERSION,
            agent_digest,
            policy,
            tools,
            head,
            model_id: Some(model_id),
            enforcement: definition.output_schema.map(|output| output.enforcement),
            fallback,
            primary_model_id,
        })
    }

    /// The fallback model that the session has changed to, and the models that are left.
    async fn session_fallback(
        &self,
        input: &RunInput,
        session: Option<&SessionId>,
        model: &str,
        fallback: &[String],
    ) -> Result<Option<(String, Vec<String>)>, ActivityError> {
        let Some(session) = session.filter(|_| !fallback.is_empty()) else { return Ok(None) };
        let page = self.store.session_page(&input.workspace(), session, None, Some(1)).await;
        let page = page.map_err(|error| failures::store(&error))?;
        let mark = page.messages.last().and_then(|(_, message)| FallbackMark::of(message));
        Ok(mark.and_then(|mark| mark.continued(model, fallback)))
    }

    /// By digest if the start has one, otherwise by id from the worker's own agents.
    async fn find(&self, input: &RunInput) -> Result<AgentDefinition, ActivityError> {
        // A repeat must find what the first attempt pinned, even if the worker's agents changed in between.
        let opened = self.store.run(&input.run_id).await.map_err(|error| failures::store(&error))?;
        if let Some(digest) = opened.and_then(|run| run.agent_digest).or(input.agent_digest) {
            return Ok(self.definition(digest).await?.definition.clone());
        }
        match self.agents.get(&input.agent_id) {
            Some(definition) => Ok((**definition).clone()),
            None => {
                let known: Vec<&str> = self.agents.ids().map(|id| id.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let message = format!(
                    "no agent `{}`: this worker has {known}; start it with --agents, or start the run from a file",
                    input.agent_id
                );
                Err(failures::permanent("agent_unknown", message))
            }
        }
    }

    /// Clients of older builds send definitions without the defaults of built-in tools.
    fn completed(&self, mut definition: AgentDefinition) -> Result<AgentDefinition, ActivityError> {
        let missing = definition.complete_builtins(&|name| self.tools.spec(name));
        match missing.first() {
            None => Ok(definition),
            Some(MissingBuiltin { agent, tool }) => {
                let message = format!("this worker has no tool `{tool}`, which agent `{agent}` uses");
                Err(failures::permanent("tool_missing", message))
            }
        }
    }

    /// Stores the definition and those of its sub-agents by content.
    async fn pin(&self, definition: &AgentDefinition) -> Result<Digest, ActivityError> {
        for agent in &definition.agents {
            Box::pin(self.pin(agent)).await?;
        }
        let body = CanonicalJson::of(definition).map_err(|error| failures::permanent("agent", error.to_string()))?;
        let stored = self.store.put_blob(body).await.map_err(|error| failures::store(&error))?;
        Ok(stored.digest)
    }

    async fn new_messages(&self, input: &RunInput) -> Result<Vec<Message>, ActivityError> {
        let mut messages = input.messages.clone();
        if let Some(stored) = input.messages_ref {
            let body = self.stored(stored).await?;
            messages = body
                .decode()
                .map_err(|error| failures::permanent("messages", format!("the stored messages: {error}")))?;
        }
        if let Some(args) = input.args() {
            messages.push(Message::user(spoken(&self.text(args).await?)));
        }
        Ok(messages)
    }
}

/// The user message made of a tool's arguments: a single text as it is, anything else as JSON.
fn spoken(args: &CanonicalJson) -> String {
    let value = args.to_value();
    let lone = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.values().next());
    match lone {
        Some(Value::String(text)) => text.clone(),
        _ => args.to_string(),
    }
}
