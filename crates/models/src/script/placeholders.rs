//! Placeholders in a script's text, filled in from what the model was asked.
//!
//! One pass: inserted text is not searched again, and an unknown placeholder stays as it is written.

use std::cell::OnceCell;

use serde_json::{Value, json};
use windlass_core::{
    canonical::CanonicalJson,
    ids::CallId,
    message::{Content, DocumentSource, ImageSource, Message, Part, Role, plain_text},
    run::NUDGE_MARK,
};

use crate::ModelRequest;

/// Fills in the placeholders of one request.
#[derive(Debug)]
pub(super) struct Placeholders<'a> {
    request: &'a ModelRequest,
    /// Found when they are first asked for: it takes a look at the whole conversation.
    tool_results: OnceCell<Vec<String>>,
}

impl<'a> Placeholders<'a> {
    pub(super) fn new(request: &'a ModelRequest) -> Self {
        Self { request, tool_results: OnceCell::new() }
    }

    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let (before, candidate) = rest.split_at(start);
            filled.push_str(before);
            let value = candidate.find("}}").and_then(|end| Some((self.value(&candidate[2..end])?, end + 2)));
            match value {
                Some((value, end)) => {
                    filled.push_str(&value);
                    rest = &candidate[end..];
                }
                None => {
                    filled.push('{');
                    rest = &candidate[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn tool_results(&self) -> &[String] {
        self.tool_results.get_or_init(|| tool_results(&self.request.messages))
    }

    fn value(&self, name: &str) -> Option<String> {
        let users = || self.request.messages.iter().filter(|message| is_from_user(message));
        Some(match name {
            "last_tool_result" => self.tool_results().last().cloned().unwrap_or_default(),
            "last_tool_result_len" => self.tool_results().last().map_or(0, |text| text.chars().count()).to_string(),
            "files" => file_names(last_result_parts(&self.request.messages)),
            "attachments" => file_names(users().flat_map(|message| &message.parts)),
            "file_bytes" => {
                self.request.messages.iter().map(|message| file_bytes(&message.parts)).sum::<usize>().to_string()
            }
            "all_tool_results" => self.tool_results().join("|"),
            "last_user" => users().next_back().map(Message::plain_text).unwrap_or_default(),
            "first_user" => users().next().map(Message::plain_text).unwrap_or_default(),
            "user_count" => users().count().to_string(),
            "assistant_count" => self.assistant_count().to_string(),
            "system" => self.request.system.clone(),
            "tools" => self.tool_names(),
            "nudged" => if self.request.messages.iter().any(is_nudge) { "yes" } else { "no" }.to_owned(),
            _ => self.tool_description(name.strip_prefix("tool_desc:")?),
        })
    }

    fn assistant_count(&self) -> usize {
        self.request.messages.iter().filter(|message| message.role == Role::Assistant).count()
    }

    fn tool_names(&self) -> String {
        let mut names: Vec<&str> = self.request.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        names.join(",")
    }

    fn tool_description(&self, name: &str) -> String {
        let tool = self.request.tools.iter().find(|tool| tool.name.as_str() == name);
        tool.map(|tool| tool.description.clone()).unwrap_or_default()
    }
}

fn is_nudge(message: &Message) -> bool {
    message.meta.get(NUDGE_MARK) == Some(&Value::Bool(true))
}

/// A user message also carries tool results to the model; those alone do not make it the user's.
fn is_from_user(message: &Message) -> bool {
    let says_something = |part: &Part| !matches!(part.content, Content::ToolResult { .. } | Content::CacheCheckpoint);
    message.role == Role::User && !is_nudge(message) && message.parts.iter().any(says_something)
}

/// Whether the last call that has a result failed, was refused or was denied.
pub(super) fn last_call_failed(messages: &[Message]) -> bool {
    results(messages).last().is_some_and(|result| result.is_error)
}

/// The names of files, comma-joined. An image has none, so it is named by its format.
fn file_names<'a>(parts: impl Iterator<Item = &'a Part>) -> String {
    let names = parts.filter_map(|part| match &part.content {
        Content::Document { name, .. } => Some(name.clone()),
        Content::Image { format, .. } => {
            let format = serde_json::to_value(format).unwrap_or_default();
            Some(format!("image.{}", format.as_str().unwrap_or_default()))
        }
        _ => None,
    });
    names.collect::<Vec<_>>().join(",")
}

/// The size of the images and documents whose content is in the parts, results of tools included.
fn file_bytes(parts: &[Part]) -> usize {
    let sizes = parts.iter().map(|part| match &part.content {
        Content::Image { source: ImageSource::Bytes(base64), .. }
        | Content::Document { source: DocumentSource::Bytes(base64), .. } => base64.trim_end_matches('=').len() * 3 / 4,
        Content::Document { source: DocumentSource::Text(text), .. } => text.len(),
        Content::ToolResult { parts, .. } => file_bytes(parts),
        _ => 0,
    });
    sizes.sum()
}

/// The parts of the result that came last.
fn last_result_parts(messages: &[Message]) -> impl Iterator<Item = &Part> {
    let last = messages.iter().flat_map(|message| &message.parts).rev().find_map(|part| match &part.content {
        Content::ToolResult { parts, .. } => Some(parts),
        _ => None,
    });
    last.into_iter().flatten()
}

fn tool_results(messages: &[Message]) -> Vec<String> {
    results(messages).into_iter().map(|result| result.render()).collect()
}

#[derive(Clone, Copy)]
struct ResultPart<'a> {
    content: &'a CanonicalJson,
    parts: &'a [Part],
    is_error: bool,
}

/// All results in the order of their calls, in whatever order they came.
fn results(messages: &[Message]) -> Vec<ResultPart<'_>> {
    let mut calls: Vec<(&CallId, Option<ResultPart<'_>>)> = Vec::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        match &part.content {
            Content::ToolUse { id, .. } => calls.push((id, None)),
            Content::ToolResult { tool_use_id, content, parts, is_error } => {
                let result = ResultPart { content, parts, is_error: *is_error };
                match calls.iter_mut().find(|(id, result)| *id == tool_use_id && result.is_none()) {
                    Some((_, slot)) => *slot = Some(result),
                    None => calls.push((tool_use_id, Some(result))),
                }
            }
            _ => {}
        }
    }
    calls.into_iter().filter_map(|(_, result)| result).collect()
}

impl ResultPart<'_> {
    fn render(&self) -> String {
        let content = self.content.to_value();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !self.is_error {
            return if content.is_null() && !self.parts.is_empty() { plain_text(self.parts) } else { text(&content) };
        }
        // A tool's own message stands as it is; any other failure says its kind, too.
        let plain = content == json!({"error": content["error"], "kind": "tool_failed"});
        format!("ERROR: {}", text(if plain { &content["error"] } else { &content }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ToolDeclaration, fixtures::request};

    fn declaration(name: &str, description: &str) -> ToolDeclaration {
        ToolDeclaration { name: name.into(), description: description.into(), input_schema: json!({}) }
    }

    fn calls(ids: &[&str]) -> Message {
        let parts = ids.iter().map(|id| Part::tool_use((*id).into(), "t".into(), json!({}).into()));
        Message::new(Role::Assistant, parts.collect())
    }

    fn answered(results: &[(&str, Value, bool)]) -> Message {
        let part = |(id, content, is_error): &(&str, Value, bool)| {
            let (tool_use_id, content) = ((*id).into(), content.into());
            Part::from(Content::ToolResult { tool_use_id, content, parts: Vec::new(), is_error: *is_error })
        };
        Message::new(Role::User, results.iter().map(part).collect())
    }

    fn nudge() -> Message {
        let mut message = Message::user("Change your strategy.");
        message.meta.insert(NUDGE_MARK.to_owned(), json!(true));
        message
    }

    fn fill(messages: Vec<Message>, text: &str) -> String {
        let mut request = request(messages);
        request.system = "Be brief.".into();
        request.tools = [declaration("search", "Finds things."), declaration("clock", "Tells the time.")].into();
        Placeholders::new(&request).fill(text)
    }

    #[test]
    fn tool_results_come_in_call_order_and_as_they_are() {
        let messages = vec![
            Message::user("go"),
            calls(&["a", "b", "c"]),
            answered(&[("c", json!({"n": [1, 2]}), false), ("a", json!("plain \"text\""), false)]),
            answered(&[("b", json!("too slow"), true)]),
            calls(&["d", "pending"]),
            answered(&[("d", json!({"kind": "timeout"}), true)]),
        ];
        assert_eq!(
            fill(messages.clone(), "{{all_tool_results}}"),
            r#"plain "text"|ERROR: too slow|{"n":[1,2]}|ERROR: {"kind":"timeout"}"#
        );
        assert_eq!(fill(messages, "{{last_tool_result}}"), r#"ERROR: {"kind":"timeout"}"#);
        assert_eq!(fill(vec![], "[{{all_tool_results}}{{last_tool_result}}]"), "[]");
    }

    #[test]
    fn what_a_tool_says_itself_stands_as_it_is_and_other_failures_say_their_kind() {
        let cases = [
            (json!({"error": "Local tool 'add' failed: no", "kind": "tool_failed"}), "Local tool 'add' failed: no"),
            (json!({"error": "no", "kind": "tool_input_invalid"}), r#"{"error":"no","kind":"tool_input_invalid"}"#),
            (
                json!({"error": "no", "kind": "tool_failed", "hint": 1}),
                r#"{"error":"no","kind":"tool_failed","hint":1}"#,
            ),
        ];
        for (content, expected) in cases {
            let messages = vec![calls(&["a"]), answered(&[("a", content.clone(), true)])];
            let filled = fill(messages, "{{last_tool_result}}");
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!(text));
            assert_eq!(parsed(filled.strip_prefix("ERROR: ").unwrap()), parsed(expected), "{content}");
        }
    }

    #[test]
    fn an_id_used_again_keeps_both_results() {
        let messages = vec![
            calls(&["a"]),
            answered(&[("a", json!(1), false)]),
            calls(&["a"]),
            answered(&[("a", json!(2), false)]),
        ];
        assert_eq!(fill(messages, "{{all_tool_results}}"), "1|2");
    }

    #[test]
    fn user_messages_are_what_the_user_said() {
        let messages = vec![
            Message::text(Role::System, "rules"),
            Message::user("first"),
            calls(&["a"]),
            answered(&[("a", json!("result"), false)]),
            Message::user("second"),
            nudge(),
            Message::assistant("hm"),
        ];
        let text = "{{first_user}} {{last_user}} {{user_count}} {{assistant_count}}";
        assert_eq!(fill(messages, text), "first second 2 2");
        assert_eq!(fill(vec![], text), "  0 0");
    }

    #[test]
    fn the_offered_tools_and_the_system_prompt_can_be_quoted() {
        assert_eq!(
            fill(vec![], "{{system}} {{tools}} {{tool_desc:clock}} [{{tool_desc:hammer}}]"),
            "Be brief. clock,search Tells the time. []"
        );
    }

    #[test]
    fn a_nudge_is_noticed() {
        assert_eq!(fill(vec![Message::user("x")], "{{nudged}}"), "no");
        assert_eq!(fill(vec![Message::user("x"), nudge()], "{{nudged}}"), "yes");
    }

    #[test]
    fn filling_in_happens_once_and_leaves_the_unknown_alone() {
        let messages = vec![Message::user("{{system}}")];
        assert_eq!(fill(messages.clone(), "{{last_user}}"), "{{system}}");
        assert_eq!(fill(messages.clone(), "{{wat}} {{{user_count}}} {{ {{user_count"), "{{wat}} {1} {{ {{user_count");
        assert_eq!(fill(messages, "é{{user_count}}é"), "é1é");
    }
}
