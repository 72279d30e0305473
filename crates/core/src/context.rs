//! Fitting a conversation into a model's context window.
//!
//! What is left out of one request is still in the transcript. The oldest tool results go first, then the oldest images
//! and documents; a short text stands in their place, so no call loses its result. Text of people and of the model is
//! never left out.

use crate::{
    canonical::CanonicalJson,
    message::{Content, DocumentFormat, DocumentSource, ImageSource, Message, Part},
};

/// Tokens of an image. Providers count 250 to 1,600 for most.
const IMAGE_TOKENS: u64 = 1_600;
/// A page of a PDF file has about 2,000 tokens and 50 KB.
const DOCUMENT_TOKENS: u64 = 2_000;
const DOCUMENT_PAGE_BYTES: u64 = 50_000;
/// What a part takes beside its text: its role, its kind, its ids.
const PART_TOKENS: u64 = 6;
/// Left out in steps of this part of the limit. In between, the requests of a run have the same prefix, which the
/// provider's prompt cache finds.
const STEPS: u64 = 8;

/// The estimate of a text's tokens: 3.5 bytes of UTF-8 are one token.
///
/// The error depends on the text: English prose has about 4.2 bytes in a token, so the estimate is about 20 % too high;
/// JSON and code have about 3.2, so it is about 10 % too low; Chinese and Japanese have about 2.8, so it is about 20 % too
/// low. Images and files are constants and rates, and may be off by a factor of two or more.
pub fn text_tokens(text: &str) -> u64 {
    bytes_tokens(text.len() as u64)
}

fn bytes_tokens(bytes: u64) -> u64 {
    (bytes * 2).div_ceil(7)
}

/// The estimate of a part's tokens.
pub fn part_tokens(part: &Part) -> u64 {
    let json = |json: &CanonicalJson| text_tokens(json.as_str());
    let content = match &part.content {
        Content::Text { text } => text_tokens(text),
        Content::Thinking { text, signature, redacted } => {
            text_tokens(text) + [signature, redacted].into_iter().flatten().map(|text| text_tokens(text)).sum::<u64>()
        }
        Content::Citations { text, citations } => {
            text_tokens(text)
                + citations.iter().flat_map(|cited| &cited.source_content).map(|text| text_tokens(text)).sum::<u64>()
        }
        Content::ToolUse { name, input, .. } => text_tokens(name.as_str()) + json(input),
        Content::ToolResult { content, parts, .. } => json(content) + parts.iter().map(part_tokens).sum::<u64>(),
        Content::Image { .. } => IMAGE_TOKENS,
        Content::Document { source, format, .. } => match source {
            DocumentSource::Text(text) => text_tokens(text),
            DocumentSource::Chunks(chunks) => chunks.iter().map(|text| text_tokens(text)).sum(),
            // Base64 has four characters for three bytes.
            DocumentSource::Bytes(data) => document_tokens(*format, data.len() as u64 * 3 / 4),
            DocumentSource::Blob(blob) => document_tokens(*format, blob.bytes * 3 / 4),
            DocumentSource::Uri(_) => DOCUMENT_TOKENS,
        },
        Content::ProviderTool { input, output, .. } => input.iter().chain(output).map(json).sum(),
        Content::CacheCheckpoint => 0,
        Content::Other { .. } => part.provider_item.as_ref().map_or(0, |item| text_tokens(&item.item)),
    };
    PART_TOKENS + content
}

fn document_tokens(format: DocumentFormat, bytes: u64) -> u64 {
    use DocumentFormat::{Csv, Html, Md, Txt};
    match format {
        Txt | Md | Csv | Html => bytes_tokens(bytes),
        _ => bytes.div_ceil(DOCUMENT_PAGE_BYTES).max(1) * DOCUMENT_TOKENS,
    }
}

pub fn message_tokens(messages: &[Message]) -> u64 {
    messages.iter().flat_map(|message| &message.parts).map(part_tokens).sum()
}

/// A conversation that was cut to size.
#[derive(Debug, Clone, PartialEq)]
pub struct Trimmed {
    pub messages: Vec<Message>,
    /// Tool results that were replaced.
    pub results: u32,
    /// Images and documents that were replaced.
    pub files: u32,
    pub tokens_before: u64,
    pub tokens_after: u64,
}

/// The conversation is larger than the window even without everything that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the conversation has about {tokens} tokens and the model reads at most {limit} of them; use a model with a larger context window, or a shorter conversation"
)]
pub struct TooLarge {
    pub tokens: u64,
    pub limit: u64,
}

/// The conversation within `limit` tokens; `None` if it already is. The last message is never touched: it is what the
/// model answers to.
pub fn fit(messages: &[Message], limit: u64) -> Result<Option<Trimmed>, TooLarge> {
    let before = message_tokens(messages);
    if before <= limit {
        return Ok(None);
    }
    let step = (limit / STEPS).max(1);
    let wanted = (before - limit).div_ceil(step) * step;
    let mut trimmed =
        Trimmed { messages: messages.to_vec(), results: 0, files: 0, tokens_before: before, tokens_after: before };
    let older = trimmed.messages.len().saturating_sub(1);
    for pass in [leave_out_result, leave_out_files] {
        for part in trimmed.messages[..older].iter_mut().flat_map(|message| &mut message.parts) {
            if before - trimmed.tokens_after >= wanted {
                return Ok(Some(trimmed));
            }
            let tokens = part_tokens(part);
            let left_out = pass(part);
            trimmed.results += left_out.results;
            trimmed.files += left_out.files;
            trimmed.tokens_after -= tokens - part_tokens(part).min(tokens);
        }
    }
    if trimmed.tokens_after <= limit {
        return Ok(Some(trimmed));
    }
    Err(TooLarge { tokens: trimmed.tokens_after, limit })
}

#[derive(Default)]
struct LeftOut {
    results: u32,
    files: u32,
}

/// Results below this size stay: a text in their place would be no smaller.
const SMALL_RESULT: u64 = 40;

fn leave_out_result(part: &mut Part) -> LeftOut {
    let tokens = part_tokens(part);
    match &mut part.content {
        Content::ToolResult { content, parts, .. } if tokens > SMALL_RESULT => {
            let bytes = content.bytes();
            let text =
                format!("[This result of {bytes} bytes was left out: the conversation is too long for the model.]");
            *content = serde_json::Value::from(text).into();
            parts.clear();
            LeftOut { results: 1, files: 0 }
        }
        _ => LeftOut::default(),
    }
}

fn leave_out_files(part: &mut Part) -> LeftOut {
    let what = match &part.content {
        Content::Image { source: ImageSource::Bytes(_) | ImageSource::Blob(_) | ImageSource::Uri(_), .. } => {
            "An image".to_owned()
        }
        Content::Document { name, .. } => format!("The file {}", serde_json::Value::from(name.as_str())),
        _ => return LeftOut::default(),
    };
    *part = Part::text(format!("[{what} was left out: the conversation is too long for the model.]"));
    LeftOut { results: 0, files: 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        ids::CallId,
        message::{ImageFormat, Role},
    };

    fn call(n: usize) -> Message {
        Message::new(
            Role::Assistant,
            vec![Part::tool_use(CallId::new(format!("c{n}")), "read".into(), json!({"n": n}).into())],
        )
    }

    fn result(n: usize, bytes: usize) -> Message {
        let part = Content::ToolResult {
            tool_use_id: CallId::new(format!("c{n}")),
            content: json!("x".repeat(bytes)).into(),
            parts: Vec::new(),
            is_error: false,
        };
        Message::new(Role::User, vec![part.into()])
    }

    fn conversation(sizes: &[usize]) -> Vec<Message> {
        let mut messages = vec![Message::user("go")];
        for (n, bytes) in sizes.iter().enumerate() {
            messages.extend([call(n), result(n, *bytes)]);
        }
        messages
    }

    #[test]
    fn the_oldest_results_are_left_out_first_and_the_newest_stays() {
        let messages = conversation(&[4_000, 4_000, 4_000, 4_000]);
        assert_eq!(fit(&messages, 10_000), Ok(None));
        let trimmed = fit(&messages, 2_800).unwrap().unwrap();
        assert_eq!((trimmed.results, trimmed.files), (2, 0));
        assert!(trimmed.tokens_after <= 2_800, "{trimmed:?}");
        assert_eq!(trimmed.tokens_after, message_tokens(&trimmed.messages));
        let Content::ToolResult { content, .. } = &trimmed.messages[2].parts[0].content else { panic!("no result") };
        let stub = "[This result of 4002 bytes was left out: the conversation is too long for the model.]";
        assert_eq!(*content, CanonicalJson::from(json!(stub)));
        assert_eq!(trimmed.messages[5..], messages[5..]);
        let error = fit(&messages, 900).unwrap_err();
        assert_eq!(error.limit, 900);
    }

    #[test]
    fn files_are_left_out_after_results() {
        let image = Content::Image { format: ImageFormat::Png, source: ImageSource::Bytes("AAAA".into()) };
        let mut messages = vec![Message::new(Role::User, vec![image.into()])];
        messages.extend(conversation(&[2_000, 10]));
        let trimmed = fit(&messages, 300).unwrap().unwrap();
        assert_eq!((trimmed.results, trimmed.files), (1, 1));
        let text = trimmed.messages[0].plain_text();
        assert_eq!(text, "[An image was left out: the conversation is too long for the model.]");
    }

    fn calls_and_results(messages: &[Message]) -> (BTreeSet<String>, BTreeSet<String>) {
        let parts = || messages.iter().flat_map(|message| &message.parts);
        let calls = parts().filter_map(|part| match &part.content {
            Content::ToolUse { id, .. } => Some(id.to_string()),
            _ => None,
        });
        let results = parts().filter_map(|part| match &part.content {
            Content::ToolResult { tool_use_id, .. } => Some(tool_use_id.to_string()),
            _ => None,
        });
        (calls.collect(), results.collect())
    }

    proptest! {
        #[test]
        fn no_call_is_orphaned_and_what_fits_is_within_the_limit(
            sizes in proptest::collection::vec(0_usize..20_000, 1..40), limit in 100_u64..60_000,
        ) {
            let messages = conversation(&sizes);
            match fit(&messages, limit) {
                Ok(None) => prop_assert!(message_tokens(&messages) <= limit),
                Ok(Some(trimmed)) => {
                    prop_assert!(message_tokens(&trimmed.messages) <= limit);
                    prop_assert_eq!(message_tokens(&trimmed.messages), trimmed.tokens_after);
                    prop_assert_eq!(calls_and_results(&trimmed.messages), calls_and_results(&messages));
                    prop_assert_eq!(trimmed.messages.len(), messages.len());
                    prop_assert_eq!(trimmed.messages.last(), messages.last());
                }
                Err(error) => prop_assert!(error.tokens > limit),
            }
        }

        /// Between two steps the longer conversation is trimmed as the shorter one was: the prefix stays the same.
        #[test]
        fn a_growing_conversation_is_trimmed_in_few_steps(sizes in proptest::collection::vec(500_usize..4_000, 30..60)) {
            let limit = 8_000;
            let mut distinct = BTreeSet::new();
            for turns in 1..sizes.len() {
                if let Ok(Some(trimmed)) = fit(&conversation(&sizes[..turns]), limit) {
                    distinct.insert(trimmed.results);
                }
            }
            // A step is an eighth of the limit: 1,000 tokens. Without steps nearly every turn would leave out one more.
            let total = sizes.iter().sum::<usize>() / 4;
            prop_assert!(distinct.len() <= total / 1_000 + 2, "{} of {}", distinct.len(), sizes.len());
        }
    }
}
