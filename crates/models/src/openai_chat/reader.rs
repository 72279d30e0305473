//! One answer out of its chunks.

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::envelope::TokenUsage;

use super::{
    answer::{Answer, Building},
    calls::Piece,
    conversation::ANNOTATIONS,
    reasoning::Reasoning,
};
use crate::{
    Delta, DeltaKind, ModelError, ModelRequest, ModelResponse,
    openai::{TokenDetails, enforced, failed_in_stream},
    wire::{Asked, Fields, StreamReader, cut_off, is_absent, read, text_of},
};

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u32>,
    delta: Option<Fields>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<TokenDetails>,
    completion_tokens_details: Option<TokenDetails>,
    /// DeepSeek's name for the cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
}

pub(super) struct Reader {
    asked: Asked,
    /// In the order in which they began.
    parts: Vec<Building>,
    /// Fields of the message that this build does not know.
    rest: Fields,
    finish_reason: Option<String>,
    ended: bool,
    response_id: Option<String>,
    usage: TokenUsage,
}

impl Reader {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            asked: Asked::of(request, enforced),
            parts: Vec::new(),
            rest: Fields::default(),
            finish_reason: None,
            ended: false,
            response_id: None,
            usage: TokenUsage::default(),
        }
    }

    /// The part of a kind, begun if it is not there yet.
    fn part(&mut self, is: impl Fn(&Building) -> bool, begin: impl FnOnce() -> Building) -> (usize, &mut Building) {
        let at = self.parts.iter().position(is).unwrap_or_else(|| {
            self.parts.push(begin());
            self.parts.len() - 1
        });
        (at, &mut self.parts[at])
    }

    fn delta(&mut self, mut delta: Fields, out: &mut Vec<Delta>) -> Result<(), ModelError> {
        self.thinking(&mut delta, out);
        self.text(&mut delta, out)?;
        self.refusal(&mut delta, out);
        let calls = delta.take("tool_calls").filter(|json| !is_absent(json));
        let calls: Vec<Fields> = calls.map_or(Ok(Vec::new()), |json| read("tool calls", &json))?;
        let calls = calls.into_iter().map(Piece::read);
        let function = delta.take("function_call").as_deref().and_then(Fields::parse).map(Piece::of_function);
        for piece in calls.chain(function) {
            self.call(piece, out);
        }
        delta.take("role");
        for (name, value) in delta.into_iter().filter(|(_, value)| !is_absent(value)) {
            self.rest.set(&name, value);
        }
        Ok(())
    }

    fn thinking(&mut self, delta: &mut Fields, out: &mut Vec<Delta>) {
        if !Reasoning::is_in(delta) {
            return;
        }
        let (part, building) =
            self.part(|it| matches!(it, Building::Thinking(_)), || Building::Thinking(Reasoning::default()));
        if let Building::Thinking(reasoning) = building {
            let text = reasoning.take(delta);
            if !text.is_empty() {
                out.push(Delta::of(part, DeltaKind::Thinking(text)));
            }
        }
    }

    fn text(&mut self, delta: &mut Fields, out: &mut Vec<Delta>) -> Result<(), ModelError> {
        let piece = delta.take("content").as_deref().and_then(text_of).unwrap_or_default();
        let cited = delta.take(ANNOTATIONS).filter(|json| !is_absent(json));
        if piece.is_empty() && cited.is_none() {
            return Ok(());
        }
        let cited: Vec<Box<RawValue>> = cited.map_or(Ok(Vec::new()), |json| read("annotations", &json))?;
        let empty = || Building::Text { text: String::new(), annotations: Vec::new() };
        let (part, building) = self.part(|it| matches!(it, Building::Text { .. }), empty);
        if let Building::Text { text, annotations } = building {
            text.push_str(&piece);
            annotations.extend(cited);
        }
        if !piece.is_empty() {
            out.push(Delta::of(part, DeltaKind::Text(piece)));
        }
        Ok(())
    }

    fn refusal(&mut self, delta: &mut Fields, out: &mut Vec<Delta>) {
        let Some(piece) = delta.take("refusal").as_deref().and_then(text_of).filter(|text| !text.is_empty()) else {
            return;
        };
        let (part, building) = self.part(|it| matches!(it, Building::Refusal(_)), || Building::Refusal(String::new()));
        if let Building::Refusal(text) = building {
            text.push_str(&piece);
            out.push(Delta::of(part, DeltaKind::Text(piece)));
        }
    }

    fn call(&mut self, piece: Piece, out: &mut Vec<Delta>) {
        let is_call = |(_, it): &(usize, &mut Building)| matches!(it, Building::Call(_));
        let mut begun =
            self.parts.iter_mut().enumerate().filter(is_call).rev().enumerate().filter_map(|(from_end, (at, it))| {
                if let Building::Call(call) = it { Some((from_end == 0, at, call)) } else { None }
            });
        let (at, before) = match begun.find(|(is_last, _, call)| piece.continues(call, *is_last)) {
            Some((_, at, call)) => {
                let before = (!call.name.is_empty(), call.arguments.len());
                call.add(piece);
                (at, before)
            }
            None => {
                drop(begun);
                self.parts.push(Building::Call(piece.begin()));
                (self.parts.len() - 1, (false, 0))
            }
        };
        self.report_call(at, before, out);
    }

    /// Reports what is new of a call: its name once it is known, then its arguments.
    fn report_call(&self, at: usize, (named, reported): (bool, usize), out: &mut Vec<Delta>) {
        let Some(Building::Call(call)) = self.parts.get(at) else { return };
        if call.name.is_empty() {
            return;
        }
        let is_answer = self.asked.is_answer(&call.name);
        if !named && !is_answer {
            out.push(Delta::of(at, DeltaKind::CallStarted { name: self.asked.names.ours(&call.name) }));
        }
        let new = &call.arguments[if named { reported } else { 0 }..];
        if !new.is_empty() {
            let kind = if is_answer { DeltaKind::Text } else { DeltaKind::CallArguments };
            out.push(Delta::of(at, kind(new.to_owned())));
        }
    }

    /// Only the end of the answer ends a call: pieces of several calls may alternate.
    fn calls_done(&mut self, out: &mut Vec<Delta>) {
        for (at, building) in self.parts.iter_mut().enumerate() {
            if let Building::Call(call) = building
                && !call.done
            {
                call.done = true;
                if !self.asked.is_answer(&call.name) {
                    out.push(Delta::of(at, DeltaKind::CallDone));
                }
            }
        }
    }

    fn count(&mut self, usage: &Usage) {
        let input = usage.prompt_tokens.unwrap_or_default();
        let output = usage.completion_tokens.unwrap_or_default();
        let total = usage.total_tokens.unwrap_or_default().max(input.saturating_add(output));
        let prompt = usage.prompt_tokens_details.as_ref();
        let cached = prompt.and_then(|it| it.cached_tokens).or(usage.prompt_cache_hit_tokens);
        self.usage.input_tokens = input;
        // xAI counts reasoning in the total only, and charges for it as output.
        self.usage.output_tokens = total - input;
        self.usage.total_tokens = total;
        self.usage.cache_read_tokens = cached.unwrap_or_default();
        self.usage.cache_write_tokens = prompt.and_then(|it| it.cache_write_tokens).unwrap_or_default();
        let completion = usage.completion_tokens_details.as_ref();
        self.usage.reasoning_tokens = completion.and_then(|it| it.reasoning_tokens).unwrap_or_default();
    }
}

impl StreamReader for Reader {
    fn event(&mut self, _name: Option<&str>, data: &str) -> Result<Vec<Delta>, ModelError> {
        let mut out = Vec::new();
        if data.trim().starts_with("[DONE]") {
            self.ended = true;
            self.calls_done(&mut out);
            return Ok(out);
        }
        let chunk: Chunk = read("an event", data)?;
        self.asked.reported(chunk.model);
        if let Some(usage) = &chunk.usage {
            self.count(usage);
        }
        if chunk.error.is_some_and(|error| !is_absent(error.get())) {
            return Err(failed_in_stream(&serde_json::from_str(data).unwrap_or_default()));
        }
        if self.response_id.is_none() {
            self.response_id = chunk.id.filter(|id| !id.is_empty());
        }
        // Only one answer is asked for.
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, &mut out)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish_reason = Some(reason);
                self.calls_done(&mut out);
            }
        }
        Ok(out)
    }

    fn is_complete(&self) -> bool {
        self.ended
    }

    fn usage(&self) -> TokenUsage {
        // The name of the model alone is no usage.
        let model = self.asked.full_model().filter(|_| self.usage.total_tokens > 0);
        TokenUsage { model, ..self.usage.clone() }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        if self.finish_reason.is_none() && (!self.ended || self.parts.is_empty()) {
            return Err(cut_off());
        }
        let Self { asked, parts, rest, finish_reason, response_id, usage, .. } = *self;
        let (usage, enforced) = (TokenUsage { model: asked.full_model(), ..usage }, asked.enforced);
        let mut answer = Answer::new(asked, rest);
        parts.into_iter().for_each(|building| answer.add(building));
        let stop = answer.stop(finish_reason.as_deref().unwrap_or("stop"));
        Ok(ModelResponse { parts: answer.into_parts(), awaits: Vec::new(), stop, usage, response_id, enforced })
    }
}
