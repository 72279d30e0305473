//! Secrets that arrive in a spec: the values of headers. They are split from it before it is stored or resolved, and the
//! spec keeps references.

use secrecy::SecretString;
use serde_json::Value;
use windlass_store::SecretOwner;

/// A value that was split from a spec, and the field that it was in.
#[derive(Debug)]
pub struct SplitSecret {
    pub field: String,
    pub value: SecretString,
}

/// Replaces the values of headers by references to secrets of `owner`. What was split before stays as it is.
pub fn split(spec: &mut Value, owner: &SecretOwner) -> Vec<SplitSecret> {
    let mut found = Vec::new();
    for key in ["tools", "definition"] {
        if let Some(value) = spec.get_mut(key) {
            walk(value, key, owner, &mut found);
        }
    }
    found
}

fn walk(value: &mut Value, path: &str, owner: &SecretOwner, found: &mut Vec<SplitSecret>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, &format!("{path}.{index}"), owner, found);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                match value {
                    // A tool's schema or a card may have a field of this name; its values are not strings then, or no secrets.
                    Value::Object(headers) if key == "headers" => {
                        for (name, value) in headers {
                            replace(value, format!("{path}.{name}"), owner, found);
                        }
                    }
                    // Descriptions of data, not of servers.
                    _ if matches!(key.as_str(), "parameters" | "inputSchema" | "outputSchema" | "agentCard") => {}
                    value => walk(value, &path, owner, found),
                }
            }
        }
        _ => {}
    }
}

fn replace(value: &mut Value, field: String, owner: &SecretOwner, found: &mut Vec<SplitSecret>) {
    let Value::String(text) = value else { return };
    if text.is_empty() || SecretOwner::is_split_reference(text) {
        return;
    }
    let secret = SecretString::from(std::mem::take(text));
    *text = format!("${{secret:{}}}", owner.secret_name(&field));
    found.push(SplitSecret { field, value: secret });
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_become_references_and_a_second_split_changes_nothing() {
        let mut spec = json!({
            "systemPrompt": "x",
            "tools": [
                {"kind": "mcp", "name": "m", "url": "https://m", "headers": {"Authorization": "Bearer abc", "X-Team": "${secret:PROD}"}},
                {"kind": "local", "name": "l", "parameters": {"properties": {"headers": {"a": "not a secret"}}}},
            ],
            "definition": {"toolsets": [{"name": "s", "mcp": {"url": "https://s", "headers": {"k": "v1"}}}],
                           "agents": [{"tools": [{"name": "h", "http": {"url": "u", "headers": {"k": "v2"}}}]}]},
        });
        let owner = SecretOwner::Run("run-1".into());
        let split_out = split(&mut spec, &owner);
        let values: Vec<(&str, &str)> =
            split_out.iter().map(|secret| (secret.field.as_str(), secret.value.expose_secret())).collect();
        assert_eq!(
            values,
            [
                ("tools.0.headers.Authorization", "Bearer abc"),
                // A caller cannot name a secret of the workspace: its text is the value.
                ("tools.0.headers.X-Team", "${secret:PROD}"),
                ("definition.agents.0.tools.0.http.headers.k", "v2"),
                ("definition.toolsets.0.mcp.headers.k", "v1"),
            ]
        );
        let reference = format!("${{secret:{}}}", owner.secret_name("tools.0.headers.Authorization"));
        assert_eq!(spec["tools"][0]["headers"]["Authorization"], json!(reference));
        assert_eq!(spec["tools"][1]["parameters"]["properties"]["headers"]["a"], json!("not a secret"));
        let once = spec.clone();
        assert!(split(&mut spec, &owner).is_empty());
        assert_eq!(spec, once);
    }
}
