//! What an answer is based on: Google Search and other sources, as citations of the text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use windlass_core::{
    canonical::CanonicalJson,
    message::{Citation, Content, Part},
};

use crate::wire::Fields;

/// The grounding metadata of a candidate. Chunks may each have some of it; a later field replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct Grounding {
    fields: Fields,
}

pub(super) const SEARCH: &str = "google_search";
const QUERIES: &str = "webSearchQueries";

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Support {
    segment: Segment,
    grounding_chunk_indices: Vec<usize>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Segment {
    text: String,
}

/// A source of one of several kinds; each has an address and a title.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Chunk {
    web: Option<Source>,
    retrieved_context: Option<Source>,
    maps: Option<Source>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Source {
    uri: Option<String>,
    title: Option<String>,
}

impl Grounding {
    pub(super) fn add(&mut self, metadata: Fields) {
        metadata.into_iter().for_each(|(name, value)| self.fields.set(&name, value));
    }

    pub(super) fn has_searched(&self) -> bool {
        self.fields.decode::<Vec<String>>(QUERIES).is_some_and(|queries| !queries.is_empty())
    }

    /// The search as a part: its queries, and everything that Google says about the results. It has no item of the
    /// provider, because metadata is not part of the content and is not sent back.
    pub(super) fn search(&self) -> Option<Part> {
        let queries: Vec<String> = self.fields.decode(QUERIES)?;
        let input = CanonicalJson::from(json!({"queries": queries}));
        let mut results = self.fields.clone();
        results.take(QUERIES);
        let output = CanonicalJson::parse(&results.to_string()).ok();
        let content = Content::ProviderTool { name: SEARCH.to_owned(), input: Some(input), output };
        Some(content.into())
    }

    /// Turns the texts that have sources into citations. Google's offsets count in a content that was not cut into chunks,
    /// so the segment's text decides which part it belongs to.
    pub(super) fn cite(&self, parts: &mut [Part]) {
        let chunks: Vec<Chunk> = self.fields.decode("groundingChunks").unwrap_or_default();
        let supports: Vec<Support> = self.fields.decode("groundingSupports").unwrap_or_default();
        let mut cited: BTreeMap<usize, Vec<Citation>> = BTreeMap::new();
        for Support { segment, grounding_chunk_indices } in supports {
            let text_of = |part: &Part| match &part.content {
                Content::Text { text } => Some(text.contains(&segment.text)),
                _ => None,
            };
            let found = parts.iter().position(|part| text_of(part) == Some(true));
            let Some(number) = found.or_else(|| parts.iter().rposition(|part| text_of(part).is_some())) else {
                continue;
            };
            let sources = grounding_chunk_indices.into_iter().filter_map(|index| chunks.get(index)?.source());
            let citation = |source: Source| Citation {
                title: source.title,
                source: source.uri,
                location: None,
                source_content: vec![segment.text.clone()],
            };
            cited.entry(number).or_default().extend(sources.map(citation));
        }
        for (number, citations) in cited {
            if let Content::Text { text } = &mut parts[number].content
                && !citations.is_empty()
            {
                parts[number].content = Content::Citations { text: std::mem::take(text), citations };
            }
        }
    }
}

impl Chunk {
    fn source(&self) -> Option<Source> {
        self.web.as_ref().or(self.retrieved_context.as_ref()).or(self.maps.as_ref()).cloned()
    }
}
