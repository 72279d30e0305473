//! The tools of an agent's toolsets: listed when the run opens, and pinned with its definition.

use std::collections::BTreeSet;

use windlass_core::{
    agent::{AgentDefinition, McpSource, ResolvedToolset, ToolSource, ToolSpec, Toolset, fits},
    envelope::RunInput,
    ids::ToolName,
};

use crate::{RunActivities, secrets::RunSecrets};

impl RunActivities {
    /// The definition with the tools of its toolsets. Servers are asked at the same time; one that does not answer does
    /// not keep the run from opening.
    pub(crate) async fn with_toolsets(&self, mut definition: AgentDefinition, input: &RunInput) -> AgentDefinition {
        if definition.toolsets.iter().all(|toolset| toolset.resolved.is_some()) {
            return definition;
        }
        let secrets = self.secrets(&input.workspace(), &input.run_id, input.session_id.as_ref());
        let listed = definition.toolsets.iter().map(|toolset| self.list(toolset, &secrets));
        let listed = futures::future::join_all(listed).await;
        let mut names: BTreeSet<ToolName> = definition.tools.iter().map(|tool| tool.name.clone()).collect();
        let mut added = Vec::new();
        for (index, (toolset, (tools, resolved))) in definition.toolsets.iter_mut().zip(listed).enumerate() {
            if let Some(resolved) = resolved {
                added.push((index, tools.len()));
                toolset.resolved = Some(resolved);
                definition.tools.extend(tools.into_iter().map(|tool| unique(tool, &mut names)));
            }
        }
        within_limits(definition, &added)
    }

    async fn list(&self, toolset: &Toolset, secrets: &RunSecrets) -> (Vec<ToolSpec>, Option<ResolvedToolset>) {
        if toolset.resolved.is_some() {
            return (Vec::new(), None);
        }
        match self.tools.resolve(toolset, secrets).await {
            Ok((tools, resolved)) => {
                let (tools, resolved) = secrets.redaction().toolset(tools, resolved);
                (tools, Some(resolved))
            }
            Err(failure) => {
                let error = secrets.redaction().failure(failure).error.message;
                tracing::warn!(toolset = toolset.name, error, "the tools of a toolset could not be listed");
                let resolved = ResolvedToolset { error: Some(error.clone()), ..ResolvedToolset::default() };
                (vec![unavailable(toolset, &error)], Some(resolved))
            }
        }
    }
}

/// A run carries only so many tools. The toolsets that do not fit, the last first, are replaced by one tool that says so.
fn within_limits(mut definition: AgentDefinition, added: &[(usize, usize)]) -> AgentDefinition {
    let mut end = definition.tools.len();
    for (index, count) in added.iter().rev() {
        if fits(&definition).is_ok() {
            break;
        }
        let toolset = &mut definition.toolsets[*index];
        let error = format!("its {count} tools are too many for a run; name those that are needed in `only`");
        toolset.resolved = Some(ResolvedToolset { error: Some(error.clone()), ..ResolvedToolset::default() });
        let stub = unavailable(toolset, &error);
        definition.tools.splice(end - count..end, [stub]);
        end -= count;
    }
    definition
}

/// Stands for the tools of a server that could not be asked, so that the model can say what is missing.
fn unavailable(toolset: &Toolset, error: &str) -> ToolSpec {
    let source = McpSource { toolset: toolset.name.clone(), tool: String::new() };
    ToolSpec {
        description: format!("The tools of {} cannot be used in this run: {error}", toolset.name),
        ..ToolSpec::new(toolset.tool_name("unavailable"), ToolSource::Mcp(source))
    }
}

/// Tools of two servers may have one name. The later gets a number, so that neither hides the other.
fn unique(mut tool: ToolSpec, names: &mut BTreeSet<ToolName>) -> ToolSpec {
    let base = tool.name.to_string();
    let mut number = 2;
    while names.contains(&tool.name) {
        let suffix = format!("_{number}");
        let room = base.floor_char_boundary(ToolName::MAX_CHARS - suffix.len());
        tool.name = ToolName::new(format!("{}{suffix}", &base[..room.min(base.len())]));
        number += 1;
    }
    names.insert(tool.name.clone());
    tool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let mut names = BTreeSet::from([ToolName::new("read"), ToolName::new("read_2")]);
        let tool = |name: &str| ToolSpec::new(ToolName::new(name), ToolSource::Builtin);
        let named: Vec<String> =
            ["read", "write", "read"].map(|name| unique(tool(name), &mut names).name.to_string()).into();
        assert_eq!(named, ["read_3", "write", "read_4"]);
        let long = "x".repeat(ToolName::MAX_CHARS);
        names.insert(ToolName::new(&long));
        assert_eq!(unique(tool(&long), &mut names).name.as_str().len(), ToolName::MAX_CHARS);
    }
}
