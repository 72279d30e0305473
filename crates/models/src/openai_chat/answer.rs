//! The parts of a complete answer, and what they say about why it stopped.

use serde_json::{Value, value::RawValue};
use windlass_core::{
    message::{Citation, Content, Part},
    stop::StopReason,
};

use super::{calls::Call, conversation::ANNOTATIONS, reasoning::Reasoning};
use crate::wire::{Asked, Fields, quoted};

/// A part on its way. The message has at most one of each but calls, whatever order its pieces come in.
pub(super) enum Building {
    Thinking(Reasoning),
    Text { text: String, annotations: Vec<Box<RawValue>> },
    Refusal(String),
    Call(Call),
}

pub(super) struct Answer {
    asked: Asked,
    parts: Vec<Part>,
    /// Goes with the first part that has fields of the message.
    rest: Fields,
    calls: usize,
    answered: bool,
    refused: bool,
    unreadable: bool,
}

impl Answer {
    pub(super) fn new(asked: Asked, rest: Fields) -> Self {
        Self { asked, parts: Vec::new(), rest, calls: 0, answered: false, refused: false, unreadable: false }
    }

    pub(super) fn add(&mut self, building: Building) {
        let part = match building {
            Building::Thinking(reasoning) => {
                let content = Content::Thinking { text: reasoning.text.clone(), signature: None, redacted: None };
                self.with_fields(content, reasoning.into_fields())
            }
            Building::Text { text, annotations } => {
                let mut fields = Fields::default();
                fields.set("content", quoted(&text));
                if !annotations.is_empty() {
                    let annotations: Vec<&str> = annotations.iter().map(|it| it.get()).collect();
                    fields.set(ANNOTATIONS, format!("[{}]", annotations.join(",")));
                }
                let citations: Vec<Citation> = annotations.iter().filter_map(|it| citation(it.get())).collect();
                let content =
                    if citations.is_empty() { Content::Text { text } } else { Content::Citations { text, citations } };
                let rest = std::mem::take(&mut self.rest);
                rest.into_iter().for_each(|(name, value)| fields.set(&name, value));
                self.with_fields(content, fields)
            }
            Building::Refusal(text) => {
                self.refused = true;
                let mut fields = Fields::default();
                fields.set("refusal", quoted(&text));
                self.with_fields(Content::Text { text }, fields)
            }
            Building::Call(call) if self.asked.is_answer(&call.name) => {
                self.answered = true;
                Part::text(call.arguments)
            }
            Building::Call(call) => {
                let (part, readable) = call.into_part(self.calls, &self.asked.provider, &self.asked.names);
                self.calls += 1;
                self.unreadable |= !readable;
                part
            }
        };
        self.parts.push(part);
    }

    fn with_fields(&self, content: Content, fields: Fields) -> Part {
        Part::from(content).with_provider_item(&self.asked.provider, fields.to_string())
    }

    pub(super) fn stop(&self, reason: &str) -> StopReason {
        match reason {
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::ContentFilter,
            _ if self.refused => StopReason::Refusal,
            _ if self.unreadable => StopReason::MalformedCall,
            // Some servers say `stop` after calls.
            "stop" | "tool_calls" | "function_call" if self.calls > 0 => StopReason::ToolUse,
            "tool_calls" | "function_call" if !self.answered => StopReason::MalformedCall,
            "stop" | "tool_calls" | "function_call" => StopReason::EndTurn,
            other => StopReason::from(other),
        }
    }

    /// Fields of the message that no text could take are a part of their own.
    pub(super) fn into_parts(mut self) -> Vec<Part> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let mut part = self.with_fields(Content::Other { kind: "message_fields".to_owned() }, rest.clone());
            part.extra = rest.into_extra();
            self.parts.push(part);
        }
        self.parts
    }
}

fn citation(annotation: &str) -> Option<Citation> {
    let annotation: Value = serde_json::from_str(annotation).ok()?;
    let text = |name: &str| annotation["url_citation"][name].as_str().map(str::to_owned);
    let source = text("url")?;
    Some(Citation { title: text("title"), source: Some(source), location: None, source_content: Vec::new() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ModelRequest, wire::Output};

    #[test]
    fn every_finish_reason_has_a_stop_reason() {
        let call = |arguments: &str| {
            let fields = format!(r#"{{"id":"c","function":{{"name":"f","arguments":{}}}}}"#, quoted(arguments));
            Building::Call(super::super::calls::Piece::read(Fields::parse(&fields).unwrap()).begin())
        };
        let text = || Building::Text { text: "t".to_owned(), annotations: Vec::new() };
        let stop = |building: Building, answer_tool: Option<&str>, reason: &str| {
            let schema = answer_tool.map(|name| json!({"name": name, "schema": {}}));
            let spec = json!({"structuredOutput": "tool"});
            let asked = ModelRequest {
                output_schema: schema.map(|schema| serde_json::from_value(schema).unwrap()),
                spec: std::sync::Arc::new(serde_json::from_value(spec).unwrap()),
                ..crate::fixtures::request(vec![])
            };
            let mut answer = Answer::new(Asked::of(&asked, Output::enforced), Fields::default());
            answer.add(building);
            answer.stop(reason)
        };
        let table = [
            ("stop", StopReason::EndTurn, StopReason::ToolUse, StopReason::Refusal, StopReason::MalformedCall),
            (
                "tool_calls",
                StopReason::MalformedCall,
                StopReason::ToolUse,
                StopReason::Refusal,
                StopReason::MalformedCall,
            ),
            (
                "function_call",
                StopReason::MalformedCall,
                StopReason::ToolUse,
                StopReason::Refusal,
                StopReason::MalformedCall,
            ),
            ("length", StopReason::MaxTokens, StopReason::MaxTokens, StopReason::MaxTokens, StopReason::MaxTokens),
            (
                "content_filter",
                StopReason::ContentFilter,
                StopReason::ContentFilter,
                StopReason::ContentFilter,
                StopReason::ContentFilter,
            ),
            (
                "abort",
                StopReason::Other("abort".into()),
                StopReason::Other("abort".into()),
                StopReason::Refusal,
                StopReason::MalformedCall,
            ),
        ];
        for (reason, of_text, of_call, of_refusal, of_unreadable) in table {
            assert_eq!(stop(text(), None, reason), of_text, "{reason}");
            assert_eq!(stop(call("{}"), None, reason), of_call, "{reason}");
            assert_eq!(stop(Building::Refusal("no".into()), None, reason), of_refusal, "{reason}");
            assert_eq!(stop(call("{"), None, reason), of_unreadable, "{reason}");
        }
        assert_eq!(stop(call("{}"), Some("f"), "tool_calls"), StopReason::EndTurn);
    }
}
