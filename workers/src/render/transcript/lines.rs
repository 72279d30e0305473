//! The conversation as text.

use serde_json::Value;
use windlass_core::{
    canonical::CanonicalJson,
    event::{AwaitClosure, Event, EventBody},
    message::{Content, DocumentSource, ImageSource, Part, Role},
    time::Timestamp,
};

use super::Entry;
use crate::render::{
    Paint, await_lines, clean, duration,
    event_line::{WHO, closed, word},
    event_summary, json_line, moment, one_line,
    run::last_words,
};

/// How much of a call's arguments and of a result is shown, unless all of it is wanted.
const SHOWN: usize = 400;

/// The lines of a conversation. Long arguments and results are cut unless `full`.
pub fn transcript_lines(said: &[Entry], full: bool, paint: Paint) -> Vec<String> {
    said.iter().flat_map(|said| lines(said, full, paint)).collect()
}

fn lines(said: &Entry, full: bool, paint: Paint) -> Vec<String> {
    match said {
        Entry::Message { role, parts, earlier, runtime, turn, at, .. } => {
            let who = match role {
                _ if *runtime => "windlass",
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            let turn = turn.map(|turn| format!("turn {}", turn + 1));
            let notes = [earlier.then(|| "earlier in the session".to_owned()), turn, at.map(moment)];
            let notes: String = notes.into_iter().flatten().map(|note| format!(" · {note}")).collect();
            let head = format!("{}{}", paint.bold(who), paint.dim(&notes));
            [head].into_iter().chain(parts.iter().flat_map(|part| part_lines(part, full, paint))).collect()
        }
        Entry::Result { call_id, name, ok, content, bytes, duration_ms, at } => {
            let name = name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            let time = duration_ms.map(|time| format!(" {}", duration(time))).unwrap_or_default();
            let head = format!("{name}({call_id}){time}");
            let head = if *ok { format!("{} {head}", paint.good("✓")) } else { paint.bad(&format!("✗ {head}")) };
            let shown = match content {
                Some(content) => body(content, full),
                None => vec![format!("{} bytes; shown after the next turn", bytes.unwrap_or(0))],
            };
            let head = format!("{head}{}", paint.dim(&when(*at)));
            [head].into_iter().chain(shown.into_iter().map(|line| format!("  {line}"))).collect()
        }
        Entry::Answer { await_id, outcome, actor, answer, at } => {
            let text = format!("{await_id} {}", closed(*outcome, actor.as_ref(), None));
            let head = match outcome {
                AwaitClosure::Answered | AwaitClosure::Approved => paint.good(&format!("✓ {text}")),
                AwaitClosure::Denied | AwaitClosure::Expired | AwaitClosure::Abandoned => {
                    paint.attention(&format!("✗ {text}"))
                }
            };
            let head = format!("{head}{}", paint.dim(&when(Some(*at))));
            [head].into_iter().chain(answer.iter().flat_map(|answer| indented(answer))).collect()
        }
        Entry::Event { event } => event_lines(event, paint),
    }
}

fn event_lines(event: &Event, paint: Paint) -> Vec<String> {
    let at = paint.dim(&when(Some(event.at)));
    match event.body() {
        Ok(EventBody::AwaitOpened { item }) => {
            let mut lines = await_lines(&item, paint);
            if let Some(first) = lines.first_mut() {
                first.push_str(&at);
            }
            lines
        }
        Ok(EventBody::Steered { text, requested_by }) => {
            let by = one_line(&requested_by.to_string(), WHO);
            let by = if by.is_empty() { by } else { format!(" by {by}") };
            [format!("{}{at}", paint.attention(&format!("! steered{by}")))].into_iter().chain(indented(&text)).collect()
        }
        // The answer itself is the last message.
        Ok(EventBody::Result { error: None, .. }) => vec![format!("{}{at}", paint.good("✓ completed"))],
        Ok(EventBody::Result { .. } | EventBody::Error { .. } | EventBody::Cancelled { .. }) => {
            vec![format!("{}{at}", paint.bad(&format!("✗ {}: {}", event.kind, last_words(event))))]
        }
        _ => vec![format!("· {} {}{at}", one_line(&event.kind, 40), event_summary(event))],
    }
}

fn when(at: Option<Timestamp>) -> String {
    at.map(|at| format!(" · {}", moment(at))).unwrap_or_default()
}

fn part_lines(part: &Part, full: bool, paint: Paint) -> Vec<String> {
    match &part.content {
        Content::Text { text } | Content::Citations { text, .. } => indented(text).collect(),
        Content::Thinking { redacted: Some(_), .. } => vec![paint.dim("  (thinking, encrypted by the provider)")],
        Content::Thinking { text, .. } => {
            let mut lines: Vec<String> = indented(text).collect();
            if let Some(first) = lines.first_mut() {
                *first = format!("  (thinking) {}", first.trim_start());
            }
            lines.iter().map(|line| paint.dim(line)).collect()
        }
        Content::ToolUse { id, name, input } => call_lines(&format!("{name} ({id})"), Some(input), full, paint),
        Content::ProviderTool { name, input, output } => {
            let mut lines = call_lines(&format!("{} by the provider", one_line(name, 80)), input.as_ref(), full, paint);
            let output = output.iter().flat_map(|output| body(&output.to_value(), full));
            lines.extend(output.map(|line| format!("    {line}")));
            lines
        }
        Content::Image { format, source } => {
            let size = match source {
                ImageSource::Bytes(data) => format!("{} bytes", data.len() / 4 * 3),
                ImageSource::Blob(blob) => format!("{} bytes", blob.bytes / 4 * 3),
                ImageSource::Uri(uri) => one_line(uri, 80),
            };
            vec![format!("  [image, {}, {size}]", word(format))]
        }
        Content::Document { name, format, source, .. } => {
            let bytes = match source {
                DocumentSource::Bytes(data) => data.len() / 4 * 3,
                DocumentSource::Blob(blob) => usize::try_from(blob.bytes / 4 * 3).unwrap_or(usize::MAX),
                DocumentSource::Text(text) | DocumentSource::Uri(text) => text.len(),
                DocumentSource::Chunks(chunks) => chunks.iter().map(String::len).sum(),
            };
            vec![format!("  [document {}, {}, {bytes} bytes]", one_line(name, 80), word(format))]
        }
        Content::Other { kind } => {
            let fields: Vec<&str> = part.extra.keys().map(String::as_str).collect();
            let known = one_line(&fields.join(", "), 80);
            vec![paint.dim(&format!("  [{}, a kind this version does not know: {known}]", one_line(kind, 40)))]
        }
        Content::ToolResult { .. } | Content::CacheCheckpoint => Vec::new(),
    }
}

fn call_lines(call: &str, input: Option<&CanonicalJson>, full: bool, paint: Paint) -> Vec<String> {
    let head = format!("  → {call}");
    match input.map(|input| body(&input.to_value(), full)) {
        None => vec![head],
        Some(args) if args.len() == 1 => vec![format!("{head} {}", paint.dim(&args[0]))],
        Some(args) => [head].into_iter().chain(args.into_iter().map(|line| format!("    {line}"))).collect(),
    }
}

/// A text as it is, anything else as JSON; one line that is cut, or all of it.
fn body(value: &Value, full: bool) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(clean);
    match (full, text(value)) {
        (true, Some(text)) => text.lines().map(str::to_owned).collect(),
        (true, None) => {
            let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
            clean(&pretty).lines().map(str::to_owned).collect()
        }
        (false, Some(text)) => vec![one_line(&text, SHOWN)],
        (false, None) => vec![json_line(value, SHOWN)],
    }
}

fn indented(text: &str) -> impl Iterator<Item = String> {
    clean(text).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().into_iter()
}
