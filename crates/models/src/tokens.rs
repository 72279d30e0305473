//! How many tokens a request has, without the provider's tokenizer.

use windlass_core::context::{message_tokens, text_tokens};

use crate::{ModelRequest, ToolDeclaration};

/// An estimate of the input tokens of a request. Its error is described at [`text_tokens`]. Code that must not exceed a
/// limit keeps a reserve, and corrects itself by the usage that the provider reports.
pub fn estimate_tokens(request: &ModelRequest) -> u64 {
    let schema = request.output_schema.as_ref().map_or(0, |output| text_tokens(&output.schema.to_string()));
    text_tokens(&request.system) + schema + tool_tokens(&request.tools) + message_tokens(&request.messages)
}

/// The estimate for declared tools.
pub fn tool_tokens(tools: &[ToolDeclaration]) -> u64 {
    let tool = |tool: &ToolDeclaration| {
        text_tokens(tool.name.as_str()) + text_tokens(&tool.description) + text_tokens(&tool.input_schema.to_string())
    };
    tools.iter().map(tool).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::message::Message;

    use super::*;
    use crate::fixtures::request;

    #[test]
    fn what_is_sent_with_every_request_counts_too() {
        let tool =
            ToolDeclaration { name: "abcdefg".into(), description: "d".repeat(14), input_schema: json!({"a": 1}) };
        let asked = ModelRequest {
            system: "s".repeat(70),
            tools: [tool].into(),
            output_schema: Some(serde_json::from_value(json!({"schema": {"a": 1}})).unwrap()),
            ..request(vec![Message::user("x".repeat(35))])
        };
        assert_eq!(estimate_tokens(&asked), 20 + (2 + 4 + 2) + 2 + message_tokens(&asked.messages));
    }
}
