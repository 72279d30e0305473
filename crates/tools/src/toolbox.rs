//! Every way a worker executes tools: its own, and those that it reaches over a protocol.

use windlass_core::{
    agent::{AgentDefinition, ResolvedToolset, ToolSource, ToolSpec, Toolset},
    canonical::CanonicalJson,
    envelope::ToolErrorKind,
};

use crate::{CallContext, SecretSource, ToolFailure, ToolRegistry, ToolReply};

/// The tools of a worker, by what a definition says they are.
#[derive(Clone, Default)]
pub struct Toolbox {
    builtins: ToolRegistry,
}

impl Toolbox {
    pub fn new(builtins: ToolRegistry) -> Self {
        Self { builtins }
    }

    /// The worker's own tools.
    pub fn builtins(&self) -> &ToolRegistry {
        &self.builtins
    }

    /// Executes one round of a call, by the run's own definition.
    pub async fn call(
        &self,
        definition: &AgentDefinition,
        spec: &ToolSpec,
        context: CallContext,
        args: CanonicalJson,
    ) -> Result<ToolReply, ToolFailure> {
        let name = &spec.name;
        let unavailable = |message: String| ToolFailure::new(ToolErrorKind::ToolUnavailable, message);
        match &spec.source {
            ToolSource::Builtin => {
                let tool = self.builtins.get(name);
                let tool = tool.ok_or_else(|| unavailable(format!("this worker has no tool `{name}`")))?;
                tool.call(context, args).await.map(ToolReply::Done)
            }
            ToolSource::Other(fields) => {
                let kind = fields.kind();
                Err(unavailable(format!(
                    "this worker's build does not know tools of kind `{kind}`; upgrade the worker"
                )))
            }
            // The workflow executes these: as child runs, awaits, or on other task queues.
            ToolSource::Agent { .. }
            | ToolSource::Client { .. }
            | ToolSource::External { .. }
            | ToolSource::Temporal(_) => {
                Err(unavailable(format!("the run's agent has no tool `{name}` that a worker executes")))
            }
            _ => Err(unavailable(format!("{} of {}", name, definition.id))),
        }
    }

    /// The tools that a toolset's server describes now.
    pub async fn resolve(
        &self,
        _toolset: &Toolset,
        _secrets: &dyn SecretSource,
    ) -> Result<(Vec<ToolSpec>, ResolvedToolset), ToolFailure> {
        Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, "no"))
    }
}
