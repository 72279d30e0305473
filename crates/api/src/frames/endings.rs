//! Terminal events: outcome and cost.

use serde_json::{Map, Value, json};

use super::{RunFacts, name_model, set, tokens};
use crate::models::Catalogue;

pub(super) fn result(data: &mut Map<String, Value>, facts: &RunFacts, models: &Catalogue) {
    let success = data.get("subtype").is_some_and(|subtype| subtype == "success");
    set(data, "ok", success);
    cost(data, facts, models);
    structured(data, facts);
}

pub(super) fn error(data: &mut Map<String, Value>, facts: &RunFacts, models: &Catalogue) {
    // The protocol wants the class as `code`, and some code if there is no class.
    let class = data.get("errorClass").filter(|class| class.is_string()).cloned();
    if let Some(class) = class {
        set(data, "code", class);
    } else if !data.contains_key("code") {
        set(data, "code", "error");
    }
    cost(data, facts, models);
    structured(data, facts);
}

pub(super) fn cancelled(data: &mut Map<String, Value>, facts: &RunFacts, models: &Catalogue) {
    cost(data, facts, models);
}

fn cost(data: &mut Map<String, Value>, facts: &RunFacts, models: &Catalogue) {
    let spent = tokens(data.get("usage").unwrap_or(&Value::Null));
    set(data, "tokens", spent);
    name_model(data, facts, models);
}

/// Clients drop the block unless every field has its type.
fn structured(data: &mut Map<String, Value>, facts: &RunFacts) {
    if data.get("structuredOutput").is_none_or(Value::is_null) {
        let block = json!({
            "schemaRequested": facts.schema_requested,
            "schemaEnforced": false,
            "enforcementMechanism": "none",
            "unconstrainedFallbackOccurred": false,
        });
        set(data, "structuredOutput", block);
    }
}
