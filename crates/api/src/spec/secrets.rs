//! Secrets that arrive in a spec: the values of headers. They are split from it before it is stored or resolved, and the
//! spec keeps references.

use secrecy::SecretString;
use serde_json::Value;
use windlass_core::secret::{SecretRef, SecretText};
use windlass_store::SecretOwner;

/// A value that was split from a spec, and the field that it was in.
#[derive(Debug)]
pub struct SplitSecret {
    pub field: String,
    pub value: SecretString,
}

/// Replaces the values of headers by references to secrets of `owner`. What was split before stays as it is; a caller who
/// may use secrets of the workspace may refer to them, and for any other the text is the value.
pub fn split(spec: &mut Value, owner: &SecretOwner, may_refer: bool) -> Vec<SplitSecret> {
    let mut split = Split { owner, may_refer, found: Vec::new() };
    for key in ["tools", "definition"] {
        if let Some(value) = spec.get_mut(key) {
            split.walk(value, key);
        }
    }
    split.found
}

struct Split<'a> {
    owner: &'a SecretOwner,
    may_refer: bool,
    found: Vec<SplitSecret>,
}

impl Split<'_> {
    fn walk(&mut self, value: &mut Value, path: &str) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.walk(item, &format!("{path}.{index}"));
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    let path = format!("{path}.{key}");
                    match value {
                        Value::Object(headers) if key == "headers" => {
                            for (name, value) in headers {
                                self.replace(value, format!("{path}.{name}"));
                            }
                        }
                        // Descriptions of data and of endpoints, which may have a field of any name.
                        _ if DESCRIPTIONS.contains(&key.as_str()) => {}
                        value => self.walk(value, &path),
                    }
                }
            }
            _ => {}
        }
    }

    fn replace(&mut self, value: &mut Value, field: String) {
        let Value::String(text) = value else { return };
        let references = SecretText::new(text.as_str()).references();
        // No caller refers to the worker's environment.
        let of_workspace = references.iter().all(|reference| matches!(reference, SecretRef::Secret(_)));
        let refers = self.may_refer && !references.is_empty() && of_workspace;
        if text.is_empty() || refers || SecretOwner::is_split_reference(text) {
            return;
        }
        let secret = SecretString::from(std::mem::take(text));
        *text = format!("${{secret:{}}}", self.owner.secret_name(&field));
        self.found.push(SplitSecret { field, value: secret });
    }
}

const DESCRIPTIONS: [&str; 5] = ["parameters", "inputSchema", "outputSchema", "agentCard", "document"];

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
        let referring = spec.clone();
        let split_out = split(&mut spec, &owner, false);
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
        assert!(split(&mut spec, &owner, false).is_empty());
        assert_eq!(spec, once);
        let mut trusted = referring;
        let fields: Vec<String> = split(&mut trusted, &owner, true).into_iter().map(|secret| secret.field).collect();
        assert!(!fields.contains(&"tools.0.headers.X-Team".to_owned()), "{fields:?}");
        assert_eq!(trusted["tools"][0]["headers"]["X-Team"], json!("${secret:PROD}"));
        let mut environment = json!({"tools": [{"headers": {"k": "${env:HOME} ${secret:A}"}}]});
        assert_eq!(split(&mut environment, &owner, true).len(), 1, "a worker's variable is a text");
    }
}
