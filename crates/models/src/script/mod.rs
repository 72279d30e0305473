//! The scripted model: answers that are written down beforehand.
//!
//! It makes demos work without a key and tests exact. To the rest of the system it is a model like any other: it
//! streams, takes its time, fails, asks for tools and can be cancelled. The grammar is in `grammar`, what may stand in a
//! text in `placeholders`.

mod error;
mod grammar;
mod limit;
mod placeholders;
mod play;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, fs, path::Path, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    event::EnforcementMechanism,
    message::{Content, Part},
};

pub use self::error::{ScriptError, ScriptErrorKind};
use self::{
    grammar::{Script, Turn},
    placeholders::Placeholders,
    play::Played,
};
use crate::{Delta, DeltaKind, DeltaSink, ErrorClass, Model, ModelError, ModelRequest, ModelResponse, ToolChoice};

/// The scheme under which scripts are registered.
pub const SCHEME: &str = "script";

const DEFAULT_FINALIZE: &str = "Stopped.";

/// Plays scripts by name.
pub struct ScriptModel {
    scripts: BTreeMap<String, Script>,
}

impl ScriptModel {
    /// The scripts that are built in.
    pub fn demos() -> Result<Self, ScriptError> {
        Self::from_json(include_str!("demos.json"))
    }

    /// The scripts of a JSON file.
    pub fn from_file(path: &Path) -> Result<Self, ScriptError> {
        let json = fs::read_to_string(path).map_err(|source| ScriptError::unreadable(path, &source))?;
        Self::from_json(&json)
    }

    /// These scripts and, under the names they leave free, the others.
    #[must_use]
    pub fn beside(mut self, others: Self) -> Self {
        for (name, script) in others.scripts {
            self.scripts.entry(name).or_insert(script);
        }
        self
    }

    /// Scripts by name: `{"name": {"turns": […]}, …}`.
    pub fn from_json(json: &str) -> Result<Self, ScriptError> {
        Ok(Self { scripts: grammar::parse(json)? })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.scripts.keys().map(String::as_str)
    }

    fn turn(&self, request: &ModelRequest) -> Result<Turn, ModelError> {
        let name = &request.model;
        let script = self.scripts.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            ModelError::invalid_request(format!("there is no script `{name}`; there are: {}", names.join(", ")))
        })?;
        if request.tool_choice == ToolChoice::None {
            let text = script.finalize.as_deref().unwrap_or(DEFAULT_FINALIZE);
            return Ok(Turn { text: Some(text.to_owned()), ..Turn::default() });
        }
        let turn = script.turns.get(request.call_index as usize);
        let turn = turn.or_else(|| script.turns.last().filter(|_| script.repeat_last)).ok_or_else(|| {
            ModelError::invalid_request(format!(
                "script `{name}` has no turn {}: it ends after {}; add a turn or set `repeat_last`",
                request.call_index,
                script.turns.len()
            ))
        })?;
        let other = turn.after_error.as_deref().filter(|_| placeholders::last_call_failed(&request.messages));
        Ok(other.unwrap_or(turn).clone())
    }
}

#[async_trait]
impl Model for ScriptModel {
    async fn respond(&self, request: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let turn = self.turn(&request)?;
        wait(&request.cancel, turn.delay_ms).await?;
        let failure = turn.error.as_ref().filter(|failure| failure.strikes(request.attempt));
        if let Some(failure) = failure.filter(|failure| failure.passes()) {
            return Err(failure.to_model_error());
        }

        if turn.needs_credentials && request.credentials.is_none() {
            let message = format!("script `{}` needs credentials; set `credentials` in the agent file", request.model);
            return Err(ModelError::new(ErrorClass::Auth, message));
        }
        let mut player = Player { request: &request, turn: &turn, sink, parts: Vec::new(), text: String::new() };
        for played in turn.script() {
            player.play(played).await?;
        }
        if let Some(failure) = failure {
            return Err(failure.to_model_error());
        }
        let Player { mut parts, .. } = player;
        let cut = limit::cut(&mut parts, &request.parameters);
        let model = format!("{SCHEME}:{}", request.model);
        let usage = match &turn.usage {
            Some(usage) => play::reported(usage, model),
            None => play::estimated(&request, &parts, model),
        };
        let stop = cut.or_else(|| turn.stop.clone()).unwrap_or_else(|| play::default_stop(&turn, &parts));
        Ok(ModelResponse {
            parts,
            awaits: play::awaits(&turn),
            stop,
            usage,
            response_id: turn.response_id.clone(),
            enforced: EnforcementMechanism::None,
        })
    }
}

/// Streams the parts of a turn one after the other.
struct Player<'a> {
    request: &'a ModelRequest,
    turn: &'a Turn,
    sink: &'a mut dyn DeltaSink,
    parts: Vec<Part>,
    /// All text that was streamed: the pause is between its pieces.
    text: String,
}

impl Player<'_> {
    async fn play(&mut self, Played { mut part, pieces }: Played) -> Result<(), ModelError> {
        let number = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        let placeholders = Placeholders::new(self.request);
        match &mut part.content {
            Content::Text { text } => {
                text.clear();
                for piece in pieces {
                    wait(&self.request.cancel, if self.text.is_empty() { 0 } else { self.turn.delta_delay_ms }).await?;
                    let piece = placeholders.fill(&piece);
                    text.push_str(&piece);
                    self.text.push_str(&piece);
                    self.push(number, DeltaKind::Text(piece)).await?;
                }
            }
            // The protocol streams thinking only above level 0.
            Content::Thinking { .. } if self.request.reasoning_level.is_none_or(|level| level == 0) => return Ok(()),
            Content::Thinking { text, .. } => {
                let thought = text.clone();
                self.push(number, DeltaKind::Thinking(thought)).await?;
            }
            Content::ToolUse { name, input, .. } => {
                let (name, arguments) = (name.clone(), input.to_string());
                self.push(number, DeltaKind::CallStarted { name }).await?;
                self.push(number, DeltaKind::CallArguments(arguments)).await?;
                self.push(number, DeltaKind::CallDone).await?;
            }
            Content::ProviderTool { name, .. } => {
                let name = name.clone();
                self.push(number, DeltaKind::ProviderToolDone { name }).await?;
            }
            _ => {}
        }
        self.parts.push(part);
        Ok(())
    }

    async fn push(&mut self, part: u32, kind: DeltaKind) -> Result<(), ModelError> {
        self.sink.push(Delta { part, kind }).await
    }
}

/// Lets time pass unless the answer is no longer wanted.
async fn wait(cancel: &CancellationToken, milliseconds: u64) -> Result<(), ModelError> {
    // Even an empty sleep lasts until the timer's next tick.
    let passed = milliseconds == 0 || {
        let time = tokio::time::sleep(Duration::from_millis(milliseconds));
        cancel.run_until_cancelled(time).await.is_some()
    };
    if passed && !cancel.is_cancelled() { Ok(()) } else { Err(ModelError::cancelled()) }
}

impl fmt::Debug for ScriptModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
