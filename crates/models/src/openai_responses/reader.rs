//! One answer out of its events.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use windlass_core::{
    envelope::TokenUsage,
    ids::CallId,
    message::{Content, Part},
    stop::StopReason,
};

use super::items::{Items, Meaning, SEPARATOR};
use crate::{
    Delta, DeltaKind, ModelError, ModelRequest, ModelResponse,
    openai::{TokenDetails, enforced, failed_in_stream, read_arguments},
    wire::{Asked, Fields, StreamReader, cut_off, read, text_of},
};

#[derive(Deserialize)]
struct Event {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    output_index: usize,
    #[serde(default)]
    content_index: usize,
    #[serde(default)]
    summary_index: usize,
    delta: Option<Box<RawValue>>,
    item: Option<Box<RawValue>>,
    response: Option<Response>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    output: Vec<Box<RawValue>>,
    usage: Option<Usage>,
    incomplete_details: Option<IncompleteDetails>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    total_tokens: u64,
    input_tokens_details: Option<TokenDetails>,
    output_tokens_details: Option<TokenDetails>,
}

/// A part on its way, and what of it was reported as deltas.
struct Building {
    /// What it becomes if its item never ends.
    kind: Unfinished,
    reported: String,
    part: Option<Part>,
}

enum Unfinished {
    Text,
    Thinking,
    Call { id: String, name: String },
    Answer,
    Item { kind: String },
}

/// An item of the answer: its parts by the index of their content.
#[derive(Default)]
struct Slot {
    parts: BTreeMap<usize, usize>,
    /// The section of the summary that came last.
    section: Option<usize>,
    is_message: bool,
    done: bool,
}

pub(super) struct Reader {
    items: Items,
    slots: BTreeMap<usize, Slot>,
    /// In the order in which they began.
    parts: Vec<Building>,
    meanings: Vec<Meaning>,
    /// Why the answer ended, once it has.
    end: Option<End>,
    response_id: Option<String>,
    usage: TokenUsage,
}

enum End {
    Completed,
    Incomplete(String),
}

impl Reader {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            items: Items(Asked::of(request, enforced)),
            slots: BTreeMap::new(),
            parts: Vec::new(),
            meanings: Vec::new(),
            end: None,
            response_id: None,
            usage: TokenUsage::default(),
        }
    }

    /// The number of a part, which begins if it has not.
    fn part(&mut self, output: usize, content: usize, kind: impl FnOnce() -> Unfinished) -> usize {
        let parts = &mut self.parts;
        *self.slots.entry(output).or_default().parts.entry(content).or_insert_with(|| {
            parts.push(Building { kind: kind(), reported: String::new(), part: None });
            parts.len() - 1
        })
    }

    fn begin_item(&mut self, output: usize, item: &str, out: &mut Vec<Delta>) {
        let fields = Fields::parse(item).unwrap_or_default();
        let text = |name: &str| fields.text(name).unwrap_or_default();
        let kind = text("type");
        // The parts of a message are its contents, which begin later.
        if kind == "message" {
            self.slots.entry(output).or_default().is_message = true;
            return;
        }
        let name = text("name");
        let unfinished = match kind.as_str() {
            "reasoning" => Unfinished::Thinking,
            "function_call" if self.items.0.is_answer(&name) => Unfinished::Answer,
            "function_call" => {
                let name = self.items.0.names.ours(&name);
                let call = || Unfinished::Call { id: text("call_id"), name: name.as_str().to_owned() };
                let part = self.part(output, 0, call);
                out.push(Delta::of(part, DeltaKind::CallStarted { name }));
                return;
            }
            _ => Unfinished::Item { kind },
        };
        self.part(output, 0, || unfinished);
    }

    fn text(&mut self, at: usize, text: &str, out: &mut Vec<Delta>) {
        let building = &mut self.parts[at];
        let kind = match building.kind {
            Unfinished::Text | Unfinished::Answer => DeltaKind::Text,
            Unfinished::Thinking => DeltaKind::Thinking,
            Unfinished::Call { .. } => DeltaKind::CallArguments,
            Unfinished::Item { .. } => return,
        };
        if !text.is_empty() {
            building.reported.push_str(text);
            out.push(Delta::of(at, kind(text.to_owned())));
        }
    }

    /// Reasoning in sections, with the same separator as in the finished part.
    fn thinking(&mut self, output: usize, section: usize, text: &str, out: &mut Vec<Delta>) {
        let at = self.part(output, 0, || Unfinished::Thinking);
        let last = self.slots.entry(output).or_default().section.replace(section);
        if last.is_some_and(|last| last != section) {
            self.text(at, SEPARATOR, out);
        }
        self.text(at, text, out);
    }

    fn end_item(&mut self, output: usize, item: &str, out: &mut Vec<Delta>) -> Result<(), ModelError> {
        let slot = self.slots.entry(output).or_default();
        if std::mem::replace(&mut slot.done, true) {
            return Ok(());
        }
        if slot.parts.is_empty() {
            self.begin_item(output, item, out);
        }
        let (parts, meaning) = self.items.read(item).ok_or_else(cut_off)?;
        self.meanings.push(meaning);
        for (content, part) in parts.into_iter().enumerate() {
            let at = self.part(output, content, || Unfinished::Text);
            self.end_part(at, part, out);
        }
        Ok(())
    }

    fn end_part(&mut self, at: usize, part: Part, out: &mut Vec<Delta>) {
        // A server that sends only whole items has reported nothing so far.
        let silent = self.parts[at].reported.is_empty();
        match &part.content {
            Content::Text { text } | Content::Citations { text, .. } | Content::Thinking { text, .. } if silent => {
                self.text(at, text, out);
            }
            Content::ToolUse { input, .. } => {
                if silent {
                    self.text(at, input.as_str(), out);
                }
                out.push(Delta::of(at, DeltaKind::CallDone));
            }
            Content::ProviderTool { name, .. } => {
                out.push(Delta::of(at, DeltaKind::ProviderToolDone { name: name.clone() }));
            }
            _ => {}
        }
        self.parts[at].part = Some(part);
    }

    fn note(&mut self, response: &Response) {
        if let Some(id) = response.id.as_ref().filter(|id| !id.is_empty()) {
            self.response_id = Some(id.clone());
        }
        if let Some(usage) = &response.usage {
            let (input, output) = (usage.input_tokens_details.as_ref(), usage.output_tokens_details.as_ref());
            self.usage = TokenUsage {
                model: None,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                total_tokens: usage.total_tokens.max(usage.input_tokens.saturating_add(usage.output_tokens)),
                cache_read_tokens: input.and_then(|it| it.cached_tokens).unwrap_or_default(),
                cache_write_tokens: input.and_then(|it| it.cache_write_tokens).unwrap_or_default(),
                reasoning_tokens: output.and_then(|it| it.reasoning_tokens).unwrap_or_default(),
                cost_usd: None,
            };
        }
        self.items.0.reported(response.model.clone());
    }

    /// The answer ended. Items that had no event of their own are in the response.
    fn end(&mut self, response: &Response, end: End, out: &mut Vec<Delta>) -> Result<(), ModelError> {
        for (output, item) in response.output.iter().enumerate() {
            self.end_item(output, item.get(), out)?;
        }
        for (at, building) in self.parts.iter_mut().enumerate().filter(|(_, building)| building.part.is_none()) {
            if let Unfinished::Call { .. } = building.kind {
                out.push(Delta::of(at, DeltaKind::CallDone));
            }
            building.part = Some(unfinished(building));
        }
        self.end = Some(end);
        Ok(())
    }

    fn stop(&self, end: &End) -> StopReason {
        let any = |meaning: Meaning| self.meanings.contains(&meaning);
        match end {
            End::Incomplete(reason) => match reason.as_str() {
                "max_output_tokens" => StopReason::MaxTokens,
                other => StopReason::from(other),
            },
            End::Completed if any(Meaning::Refused) => StopReason::Refusal,
            End::Completed if any(Meaning::CalledUnreadably) => StopReason::MalformedCall,
            End::Completed if any(Meaning::Called) => StopReason::ToolUse,
            End::Completed => StopReason::EndTurn,
        }
    }
}

/// A part whose item never ended. It has no item to send back.
fn unfinished(building: &Building) -> Part {
    let text = building.reported.clone();
    match &building.kind {
        Unfinished::Text | Unfinished::Answer => Part::text(text),
        Unfinished::Thinking => Content::Thinking { text, signature: None, redacted: None }.into(),
        Unfinished::Call { id, name } => {
            Part::tool_use(CallId::new(id), windlass_core::ids::ToolName::new(name), read_arguments(&text).0)
        }
        Unfinished::Item { kind } => Content::Other { kind: kind.clone() }.into(),
    }
}

impl StreamReader for Reader {
    fn event(&mut self, _name: Option<&str>, data: &str) -> Result<Vec<Delta>, ModelError> {
        let mut out = Vec::new();
        // The mark that ends other streams of OpenAI; some servers send it here, too.
        if data.trim().starts_with("[DONE]") {
            return Ok(out);
        }
        let event: Event = read("an event", data)?;
        let failed = || failed_in_stream(&serde_json::from_str(data).unwrap_or_default());
        let Event { output_index: output, content_index: content, .. } = event;
        let piece = || event.delta.as_ref().and_then(|delta| text_of(delta.get())).unwrap_or_default();
        if let Some(response) = &event.response {
            self.note(response);
        }
        match (event.kind.as_str(), &event.item, &event.response) {
            ("response.output_item.added", Some(item), _) => self.begin_item(output, item.get(), &mut out),
            ("response.output_item.done", Some(item), _) => self.end_item(output, item.get(), &mut out)?,
            ("response.content_part.added", ..) if self.slots.get(&output).is_some_and(|slot| slot.is_message) => {
                self.part(output, content, || Unfinished::Text);
            }
            ("response.output_text.delta" | "response.refusal.delta", ..) => {
                let at = self.part(output, content, || Unfinished::Text);
                self.text(at, &piece(), &mut out);
            }
            ("response.reasoning_summary_text.delta", ..) => {
                self.thinking(output, event.summary_index, &piece(), &mut out);
            }
            ("response.reasoning_text.delta", ..) => self.thinking(output, content, &piece(), &mut out),
            ("response.function_call_arguments.delta", ..) => {
                if let Some(at) = self.slots.get(&output).and_then(|slot| slot.parts.get(&0).copied()) {
                    self.text(at, &piece(), &mut out);
                }
            }
            ("response.completed", _, Some(response)) => self.end(response, End::Completed, &mut out)?,
            ("response.incomplete", _, Some(response)) => {
                let reason = response.incomplete_details.as_ref().and_then(|details| details.reason.clone());
                let end = End::Incomplete(reason.unwrap_or_else(|| "incomplete".to_owned()));
                self.end(response, end, &mut out)?;
            }
            ("response.failed", _, Some(response)) => {
                let error = response.error.as_ref().map_or("null", |error| error.get());
                let error: serde_json::Value = serde_json::from_str(error).unwrap_or_default();
                return Err(failed_in_stream(&json!({"error": error})));
            }
            ("error", ..) => return Err(failed()),
            ("", ..) if event.error.is_some() => return Err(failed()),
            _ => {}
        }
        Ok(out)
    }

    fn is_complete(&self) -> bool {
        self.end.is_some()
    }

    fn usage(&self) -> TokenUsage {
        // The name of the model alone is no usage.
        let model = self.items.0.full_model().filter(|_| self.usage.total_tokens > 0);
        TokenUsage { model, ..self.usage.clone() }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let stop = self.stop(self.end.as_ref().ok_or_else(cut_off)?);
        Ok(ModelResponse {
            stop,
            parts: self.parts.into_iter().filter_map(|building| building.part).collect(),
            awaits: Vec::new(),
            usage: TokenUsage { model: self.items.0.full_model(), ..self.usage },
            response_id: self.response_id,
            enforced: self.items.0.enforced,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::request;

    #[test]
    fn every_end_has_a_stop_reason() {
        use Meaning::{Called, CalledUnreadably, Refused, Said};
        let table = [
            (End::Completed, vec![], StopReason::EndTurn),
            (End::Completed, vec![Said], StopReason::EndTurn),
            (End::Completed, vec![Said, Called], StopReason::ToolUse),
            (End::Completed, vec![Called, CalledUnreadably], StopReason::MalformedCall),
            (End::Completed, vec![Refused], StopReason::Refusal),
            (End::Incomplete("max_output_tokens".into()), vec![CalledUnreadably], StopReason::MaxTokens),
            (End::Incomplete("content_filter".into()), vec![Said], StopReason::ContentFilter),
            (End::Incomplete("steered".into()), vec![Said], StopReason::Other("steered".into())),
        ];
        for (end, meanings, stop) in table {
            let reader = Reader { meanings, ..Reader::new(&request(vec![])) };
            assert_eq!(reader.stop(&end), stop);
        }
    }

    #[test]
    fn a_response_that_failed_says_what_it_cost() {
        let mut reader = Reader::new(&request(vec![]));
        let failed = json!({"type": "response.failed", "response": {"id": "r", "model": "m", "error": null,
            "usage": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}}});
        assert!(reader.event(None, &failed.to_string()).unwrap_err().retryable);
        assert_eq!((reader.usage().total_tokens, reader.usage().model.as_deref()), (6, Some("script:m")));
    }
}
