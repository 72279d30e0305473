//! Toolsets: tools that a server describes. They become tools of the agent when a run opens, and stay as they are for
//! that run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ConfirmationSpec, HttpAccess, ToolSpec};
use crate::{envelope::Extra, ids::ToolName, time::Millis};

/// The tools of one server. Exactly one of `mcp` and `openapi` is there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toolset {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpServer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openapi: Option<OpenApiSource>,
    /// Which of the server's tools, by their names there; `*` stands for any text. Empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// What the tools' names begin with; the toolset's name and `_` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Added to the tags of each tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// Every call of these tools needs an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<ConfirmationSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Set when a run opened with this toolset: its tools are among the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedToolset>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An MCP server: one that the worker's config names, or one at an address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServer {
    /// A server of the worker's config, which says its command or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The address of its Streamable HTTP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(flatten)]
    pub access: HttpAccess,
}

/// An OpenAPI document; each operation becomes a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenApiSource {
    /// Where the document is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The document itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<Value>,
    /// Instead of the first of the document's servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    #[serde(flatten)]
    pub access: HttpAccess,
}

/// The server that described a toolset's tools, as a run found it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResolvedToolset {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The revision of the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Why its tools could not be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Toolset {
    /// Whether a tool of the server is wanted.
    pub fn wants(&self, tool: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|pattern| matches(pattern, tool))
    }

    /// The name that the agent gives to a tool of the server. Characters that no tool name may have become `_`.
    pub fn tool_name(&self, tool: &str) -> ToolName {
        let prefix = self.prefix.clone().unwrap_or_else(|| format!("{}_", self.name));
        let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' };
        let mut name: String = format!("{prefix}{tool}").chars().map(safe).collect();
        name.truncate(ToolName::MAX_CHARS);
        ToolName::new(name)
    }

    /// Puts what the toolset says of all its tools on one of them.
    pub fn apply(&self, tool: &mut ToolSpec) {
        let missing: Vec<String> = self.tags.iter().filter(|tag| !tool.tags.contains(tag)).cloned().collect();
        tool.tags.extend(missing);
        tool.timeout_ms = self.timeout_ms.or(tool.timeout_ms);
        tool.max_output_bytes = self.max_output_bytes.or(tool.max_output_bytes);
        if let Some(confirmation) = &self.confirmation {
            tool.confirmation = Some(confirmation.clone());
        }
    }
}

/// Whether `text` has the form of `pattern`, in which `*` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let cases = [
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("read_*", "read_file", true),
            ("read_*", "write_file", false),
            ("*_file", "read_file", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_tool_gets_the_prefix_of_its_toolset_and_a_name_that_models_accept() {
        let set = Toolset { name: "fs".into(), ..Toolset::default() };
        assert_eq!(set.tool_name("read file/é"), ToolName::new("fs_read_file__"));
        let bare = Toolset { prefix: Some(String::new()), ..set };
        assert_eq!(bare.tool_name("read"), ToolName::new("read"));
        assert_eq!(bare.tool_name(&"x".repeat(500)).as_str().len(), ToolName::MAX_CHARS);
    }
}
