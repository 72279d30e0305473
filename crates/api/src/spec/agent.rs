//! The agent part of a body: the same for runs, sessions and, as overrides, messages.

use windlass_core::{
    agent::{AgentDefinition, OutputSchema},
    envelope::GuardOverrides,
    ids::AgentId,
    limits::{NAME_CHARS, TEXT_CHARS},
};

use super::{
    Invalid,
    fields::Fields,
    guards,
    metadata::{self, Metadata},
    settings,
    tools::{self, ToolRef},
    whole,
};

/// An agent as a caller describes it. Absent fields get the server's defaults or, in a message, the session's values.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub name: Option<String>,
    pub agent_id: Option<AgentId>,
    /// The whole agent, instead of one that the server knows.
    pub definition: Option<Box<AgentDefinition>>,
    pub system_prompt: Option<String>,
    pub model_id: Option<String>,
    pub fallback_model_id: Option<String>,
    pub reasoning_level: Option<u8>,
    pub output_schema: Option<OutputSchema>,
    pub guards: GuardOverrides,
    pub max_tool_turns: Option<u32>,
    pub metadata: Metadata,
    pub(super) tools: Vec<ToolRef>,
}

impl Spec {
    /// A spec that was parsed before, with references in the place of its secrets.
    pub(crate) fn parse_kept(kept: &serde_json::Value) -> Result<Self, Invalid> {
        Self::parse(&Fields::of_body(kept)?)
    }

    pub(super) fn parse(fields: &Fields<'_>) -> Result<Self, Invalid> {
        guards::refuse_what_is_missing(fields)?;
        let said = |key: &str, most: usize| {
            Ok::<_, Invalid>(fields.bounded_text(key, most)?.filter(|text| !text.is_empty()).map(str::to_owned))
        };
        let agent_id = said("agentId", NAME_CHARS)?
            .map(|id| AgentId::parse(&id).map_err(|problem| fields.invalid("agentId", problem.to_string())))
            .transpose()?;
        Ok(Self {
            name: said("name", NAME_CHARS)?,
            agent_id,
            definition: whole::definition(fields)?,
            system_prompt: said("systemPrompt", TEXT_CHARS)?,
            model_id: said("modelId", NAME_CHARS)?,
            fallback_model_id: said("fallbackModelId", NAME_CHARS)?,
            reasoning_level: settings::reasoning_level(fields)?,
            output_schema: settings::output_schema(fields)?,
            guards: guards::parse(fields)?,
            max_tool_turns: guards::max_tool_turns(fields)?,
            metadata: metadata::parse(fields, "metadata")?,
            tools: tools::parse(fields)?.unwrap_or_default(),
        })
    }

    /// Checks that there is an agent, a system prompt or a system message.
    pub(super) fn check_purpose(&self, system: &[String]) -> Result<(), Invalid> {
        let told = system.iter().any(|text| !text.trim().is_empty());
        if self.agent_id.is_some() || self.definition.is_some() || self.system_prompt.is_some() || told {
            return Ok(());
        }
        Err(Invalid::new("systemPrompt", "is required, unless agentId or a system message is sent"))
    }
}
