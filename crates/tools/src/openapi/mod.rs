//! OpenAPI documents (3.0 and 3.1, as JSON) as toolsets: each operation becomes a tool of kind `http`.
//!
//! A document is written by others, so nothing in it may cost more than a bounded amount of work: schemas are inlined
//! within limits, and what is beyond them becomes `{}`, which any value satisfies.

mod arguments;
mod document;
mod fetch;
mod inline;
mod operation;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{ResolvedToolset, ToolSpec, Toolset},
    envelope::ToolErrorKind,
    ids::ToolName,
    limits::TOOLS,
};

use self::document::Document;
pub use self::fetch::fetch;
use crate::{Egress, SecretSource, ToolFailure};

/// Why a document gives no tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenApiError {
    #[error("the toolset has no OpenAPI document; write openapi with a url or a document")]
    NoSource,
    #[error("the document is {0}, and only OpenAPI 3.0 and 3.1 are supported; convert it")]
    Version(String),
    #[error("the document does not say where its server is; write baseUrl in the toolset")]
    NoServer,
    #[error("the server's address {0:?} is not an absolute http or https URL; write baseUrl in the toolset")]
    Server(String),
    #[error("the document has {0} operations, and an agent has at most {TOOLS} tools; choose some with only")]
    TooMany(usize),
}

/// The tools of a document. Deprecated operations are left out, and those whose body is not JSON.
pub fn tools(document: &Value, toolset: &Toolset) -> Result<Vec<ToolSpec>, OpenApiError> {
    let source = toolset.openapi.as_ref().ok_or(OpenApiError::NoSource)?;
    let document = Document::of(document)?;
    let base = document.base_url(source)?;
    let operations: Vec<_> = document.operations().filter(|operation| toolset.wants(&operation.name)).collect();
    if operations.len() > TOOLS {
        return Err(OpenApiError::TooMany(operations.len()));
    }
    let mut taken = BTreeSet::new();
    let mut tools = Vec::new();
    for operation in &operations {
        let Some(mut tool) = operation.tool(&document, &base, &source.access) else { continue };
        tool.name = unique(&toolset.tool_name(&operation.name), &mut taken);
        toolset.apply(&mut tool);
        tools.push(tool);
    }
    Ok(tools)
}

/// The name, or the name with the first number that no other tool has.
fn unique(name: &ToolName, taken: &mut BTreeSet<ToolName>) -> ToolName {
    let numbered = (2_usize..).map(|number| {
        let suffix = format!("_{number}");
        let mut start = name.as_str().to_owned();
        // Names of tools are ASCII.
        start.truncate(ToolName::MAX_CHARS - suffix.len());
        ToolName::new(start + &suffix)
    });
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or_else(|| name.clone());
    taken.insert(free.clone());
    free
}

/// The tools of a toolset, and what the document says of its server.
pub async fn resolve(
    egress: &Egress,
    toolset: &Toolset,
    secrets: &dyn SecretSource,
    cancel: &CancellationToken,
) -> Result<(Vec<ToolSpec>, ResolvedToolset), ToolFailure> {
    let failed = |error: OpenApiError| ToolFailure::new(ToolErrorKind::ToolFailed, error.to_string());
    let source = toolset.openapi.as_ref().ok_or_else(|| failed(OpenApiError::NoSource))?;
    let fetched;
    let document = match &source.document {
        Some(document) => document,
        None => {
            fetched = fetch(egress, source, secrets, cancel).await?;
            &fetched
        }
    };
    let tools = tools(document, toolset).map_err(failed)?;
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(|text| document::clip(text, 200));
    let resolved = ResolvedToolset {
        server: text("/info/title"),
        version: text("/info/version"),
        protocol: text("/openapi").map(|version| format!("openapi {version}")),
        error: None,
    };
    Ok((tools, resolved))
}
