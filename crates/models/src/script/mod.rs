//! The scripted model: answers that are written down beforehand.
//!
//! It makes demos work without a key and tests exact. To the rest of the system it is a model like any other: it
//! streams, takes its time, fails, asks for tools and can be cancelled. The grammar is in `grammar`, what may stand in a
//! text in `placeholders`.

mod error;
#[cfg(test)]
mod fixtures;
mod grammar;
mod placeholders;
mod play;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, fs, path::Path, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use self::error::{ScriptError, ScriptErrorKind};
use self::{
    grammar::{Script, Turn},
    placeholders::Placeholders,
};
use crate::{Delta, DeltaSink, Model, ModelError, ModelRequest, ModelResponse, ToolChoice};

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

        let placeholders = Placeholders::new(&request);
        let thinks = request.reasoning_level.is_some_and(|level| level > 0);
        let thought = turn.thinking.clone().filter(|_| thinks);
        if let Some(thinking) = &thought {
            sink.push(Delta::Thinking(thinking.clone())).await?;
        }
        let mut text = String::new();
        for (index, piece) in turn.deltas.iter().flatten().chain(&turn.text).enumerate() {
            let pause = if index == 0 { 0 } else { turn.delta_delay_ms };
            wait(&request.cancel, pause).await?;
            let piece = placeholders.fill(piece);
            text.push_str(&piece);
            sink.push(Delta::Text(piece)).await?;
        }

        if let Some(failure) = failure {
            return Err(failure.to_model_error());
        }
        let (tool_calls, awaits) = play::requests(&turn, request.call_index);
        let model = format!("{SCHEME}:{}", request.model);
        let thinking = thought.as_deref().unwrap_or_default();
        let usage = match &turn.usage {
            Some(usage) => play::reported(usage, model),
            None => play::estimated(&request, &[thinking, &text], &tool_calls, model),
        };
        let stop = turn.stop.clone().unwrap_or_else(|| play::default_stop(&turn).to_owned());
        Ok(ModelResponse { text, thinking: thought, tool_calls, awaits, notes: Vec::new(), stop, usage })
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
