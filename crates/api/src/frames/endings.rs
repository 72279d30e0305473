//! Terminal events: outcome and cost.

use serde_json::{Map, Value, json};

use super::{RunFacts, name_model, set, tokens};

pub(super) fn result(data: &mut Map<String, Value>, facts: &RunFacts) {
    let success = data.get("subtype").is_some_and(|subtype| subtype == "success");
    set(data, "ok", success);
    cost(data);
    structured(data, facts);
}

pub(super) fn error(data: &mut Map<String, Value>, facts: &RunFacts) {
    // The protocol wants the class as `code`, and some code if there is no class.
    let class = data.get("errorClass").filter(|class| class.is_string()).cloned();
    if let Some(class) = class {
        set(data, "code", class);
    } else if !data.contains_key("code") {
        set(data, "code", "error");
    }
    cost(data);
    structured(data, facts);
}

pub(super) fn cancelled(data: &mut Map<String, Value>) {
    cost(data);
}

fn cost(data: &mut Map<String, Value>) {
    let spent = tokens(data.get("usage").unwrap_or(&Value::Null));
    set(data, "tokens", spent);
    name_model(data);
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
