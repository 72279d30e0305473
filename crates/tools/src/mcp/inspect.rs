//! What `windlass mcp inspect` shows.

use rmcp::{model::PaginatedRequestParams, service::ServiceError};
use serde::Serialize;
use serde_json::Value;

use super::{connection::Connection, failure};
use crate::ToolFailure;

const MAX_PAGES: usize = 100;

/// A server as it describes itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpInspection {
    /// The revision of the protocol that was agreed on.
    pub protocol: String,
    /// Name, version and what else the server says of itself; `null` if it says nothing.
    pub server: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    pub capabilities: Value,
    /// These four are the server's own objects.
    pub tools: Vec<Value>,
    pub prompts: Vec<Value>,
    pub resources: Vec<Value>,
    pub resource_templates: Vec<Value>,
}

/// All pages of a list.
macro_rules! pages {
    ($connection:expr, $method:ident, $items:ident) => {{
        let mut all = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = $connection
                .peer
                .$method(Some(params))
                .await
                .map_err(|error: ServiceError| failure::of_request(&error))?;
            all.extend(page.$items.iter().map(json));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        all
    }};
}

pub(super) async fn inspect(connection: &Connection) -> Result<McpInspection, ToolFailure> {
    let info = &connection.info;
    let offers = &info.capabilities;
    let mut inspection = McpInspection {
        protocol: info.protocol_version.to_string(),
        server: json(&info.server_info),
        instructions: info.instructions.clone(),
        capabilities: json(offers),
        ..McpInspection::default()
    };
    if offers.tools.is_some() {
        let (tools, _) = connection.list_tools().await?;
        inspection.tools = tools.iter().map(json).collect();
    }
    if offers.prompts.is_some() {
        inspection.prompts = pages!(connection, list_prompts, prompts);
    }
    if offers.resources.is_some() {
        inspection.resources = pages!(connection, list_resources, resources);
        inspection.resource_templates = pages!(connection, list_resource_templates, resource_templates);
    }
    Ok(inspection)
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
