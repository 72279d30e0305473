//! `notes.add` and `notes.search`: short texts a workspace keeps between runs.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{
    agent::{ToolSource, ToolSpec},
    canonical::CanonicalJson,
    envelope::{Bounds, ToolErrorKind},
    time::Millis,
};
use windlass_store::{ErrorKind, NoteRow, Notes, StoreError};

use crate::{CallContext, Tool, ToolFailure, ToolSuccess, args};

const TIMEOUT: Millis = Millis::from_secs(15);
const DEFAULT_LIMIT: u32 = 10;
const MAX_LIMIT: u32 = 50;

/// Keeps a note under a key. The same key again replaces the note, so a repeat is harmless.
#[derive(Clone)]
pub struct NotesAdd {
    store: Arc<dyn Notes>,
}

/// Finds notes by their text.
#[derive(Clone)]
pub struct NotesSearch {
    store: Arc<dyn Notes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddArgs {
    key: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    query: String,
    #[serde(default)]
    limit: Option<u32>,
}

impl NotesAdd {
    pub fn new(store: Arc<dyn Notes>) -> Self {
        Self { store }
    }
}

impl NotesSearch {
    pub fn new(store: Arc<dyn Notes>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Tool for NotesAdd {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            description: "Keeps a short text under a key. A note that has this key already is replaced.".to_owned(),
            input_schema: Some(json!({
                "type": "object",
                "properties": {
                    "key": {"type": "string", "minLength": 1, "maxLength": 128, "description": "Names the note."},
                    "text": {"type": "string", "minLength": 1, "maxLength": 8000, "description": "What to keep."},
                },
                "required": ["key", "text"],
                "additionalProperties": false,
            })),
            tags: vec!["write".to_owned()],
            timeout_ms: Some(TIMEOUT),
            idempotent: true,
            ..ToolSpec::new("notes.add".into(), ToolSource::Builtin)
        }
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let AddArgs { key, text } = args::decode(&args)?;
        let note = self.store.put_note(&context.workspace, &key, &text).await.map_err(|error| failure(&error))?;
        Ok(ToolSuccess::new(view(&note)))
    }
}

#[async_trait]
impl Tool for NotesSearch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            description: "Finds kept notes that contain every word of the query in their key or text, newest first."
                .to_owned(),
            input_schema: Some(json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "maxLength": 256, "description": "What to look for; empty finds all notes."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
                              "description": "How many notes to return at most."},
                },
                "required": ["query"],
                "additionalProperties": false,
            })),
            tags: vec!["read".to_owned()],
            timeout_ms: Some(TIMEOUT),
            idempotent: true,
            ..ToolSpec::new("notes.search".into(), ToolSource::Builtin)
        }
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let SearchArgs { query, limit } = args::decode(&args)?;
        let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        // One more than wanted tells whether there are more.
        let found = self.store.notes(&context.workspace, &query, limit + 1).await.map_err(|error| failure(&error))?;
        let truncated = found.len() > limit as usize;
        let notes: Vec<Value> = found.iter().take(limit as usize).map(view).collect();
        let bounds = Bounds {
            returned: notes.len() as u64,
            total: (!truncated).then_some(notes.len() as u64),
            truncated,
            next_cursor: None,
            refinement_hint: truncated
                .then(|| "There are more notes: use a longer query or a larger limit.".to_owned()),
        };
        Ok(ToolSuccess { bounds: Some(bounds), ..ToolSuccess::new(json!({"notes": notes, "truncated": truncated})) })
    }
}

fn view(note: &NoteRow) -> Value {
    json!({"key": note.key, "text": note.text, "updatedAt": note.updated_at.rfc3339()})
}

/// The model reads that the call failed. The cause is for the operator, who finds the code in `docs/errors`.
fn failure(error: &StoreError) -> ToolFailure {
    let code = error.code();
    match error.kind() {
        ErrorKind::Unavailable => {
            let message = format!("the notes cannot be reached right now ({code}); try again later");
            ToolFailure::new(ToolErrorKind::ToolUnavailable, message).retryable()
        }
        ErrorKind::Invalid => ToolFailure::new(ToolErrorKind::ToolFailed, format!("the notes refused this ({code})")),
        ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Closed | ErrorKind::Ended | ErrorKind::Corrupt => {
            ToolFailure::new(ToolErrorKind::Internal, format!("the notes are not usable ({code})"))
        }
    }
}

impl fmt::Debug for NotesAdd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotesAdd").finish_non_exhaustive()
    }
}

impl fmt::Debug for NotesSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotesSearch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::schema::coerce_and_validate;
    use windlass_store::sqlite::{Options, SqliteStore};

    use super::*;
    use crate::fixtures::context;

    struct Bench {
        add: NotesAdd,
        search: NotesSearch,
        _directory: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store: Arc<dyn Notes> =
                Arc::new(SqliteStore::open(Options::new(directory.path().join("notes.db"))).unwrap());
            Self { add: NotesAdd::new(Arc::clone(&store)), search: NotesSearch::new(store), _directory: directory }
        }

        async fn add(&self, key: &str, text: &str) -> Value {
            self.add.call(context(), json!({"key": key, "text": text}).into()).await.unwrap().result.to_value()
        }

        async fn search(&self, args: Value) -> ToolSuccess {
            self.search.call(context(), args.into()).await.unwrap()
        }
    }

    #[tokio::test]
    async fn a_note_is_found_as_it_was_kept() {
        let notes = Bench::new();
        let kept = notes.add("launch", "The launch is on Friday.").await;
        assert_eq!((&kept["key"], &kept["text"]), (&json!("launch"), &json!("The launch is on Friday.")));
        assert!(windlass_core::time::Timestamp::parse_rfc3339(kept["updatedAt"].as_str().unwrap()).is_some());
        assert_eq!(
            notes.search(json!({"query": "FRIDAY launch"})).await,
            ToolSuccess {
                result: json!({"notes": [kept], "truncated": false}).into(),
                content: Vec::new(),
                bounds: Some(Bounds { returned: 1, total: Some(1), ..Bounds::default() }),
                server_data: None,
            }
        );
        assert_eq!(notes.search(json!({"query": "monday"})).await.result, json!({"notes": [], "truncated": false}));
    }

    #[tokio::test]
    async fn the_same_key_again_replaces_the_note() {
        let notes = Bench::new();
        notes.add("k", "first").await;
        let second = notes.add("k", "second").await;
        assert_eq!(notes.search(json!({"query": ""})).await.result.to_value()["notes"], json!([second]));
    }

    #[tokio::test]
    async fn a_search_is_bounded_and_says_so() {
        let notes = Bench::new();
        for index in 0..12 {
            notes.add(&format!("k{index}"), "same text").await;
        }
        let found = notes.search(json!({"query": "same", "limit": 2})).await;
        assert_eq!(found.result.to_value()["notes"].as_array().unwrap().len(), 2);
        assert_eq!(
            found.bounds.unwrap(),
            Bounds {
                returned: 2,
                total: None,
                truncated: true,
                next_cursor: None,
                refinement_hint: Some("There are more notes: use a longer query or a larger limit.".into()),
            }
        );
        assert_eq!(notes.search(json!({"query": "same"})).await.bounds.unwrap().returned, 10);
        let all = notes.search(json!({"query": "same", "limit": 12})).await;
        assert_eq!(all.bounds.unwrap(), Bounds { returned: 12, total: Some(12), ..Bounds::default() });
    }

    #[tokio::test]
    async fn one_workspace_does_not_see_the_notes_of_another() {
        let notes = Bench::new();
        notes.add("k", "secret").await;
        let stranger = CallContext { workspace: "other".into(), ..context() };
        let found = notes.search.call(stranger, json!({"query": ""}).into()).await.unwrap();
        assert_eq!(found.result, json!({"notes": [], "truncated": false}));
    }

    #[tokio::test]
    async fn their_schemas_take_what_they_take() {
        let notes = Bench::new();
        let (add, search) = (notes.add.spec().schema(), notes.search.spec().schema());
        assert!(coerce_and_validate(&add, json!({"key": "k", "text": "t"})).is_ok());
        assert!(coerce_and_validate(&search, json!({"query": "q", "limit": 50})).is_ok());
        for args in [json!({"key": "k"}), json!({"key": "", "text": "t"}), json!({"key": "k", "text": "t", "tag": 1})] {
            assert!(coerce_and_validate(&add, args.clone()).is_err(), "{args}");
        }
        for args in [json!({}), json!({"query": "q", "limit": 0}), json!({"query": "q", "limit": 51})] {
            assert!(coerce_and_validate(&search, args.clone()).is_err(), "{args}");
        }
        let failure = notes.add.call(context(), json!({"key": "k"}).into()).await.unwrap_err();
        assert_eq!(
            failure,
            ToolFailure::new(ToolErrorKind::ToolInputInvalid, "the arguments are wrong: missing field `text`")
        );
    }

    #[test]
    fn a_store_that_is_busy_is_worth_another_attempt_and_a_broken_one_is_not() {
        let busy = StoreError::Unavailable { action: "write", detail: "locked".into() };
        assert_eq!(
            failure(&busy),
            ToolFailure::new(
                ToolErrorKind::ToolUnavailable,
                "the notes cannot be reached right now (STO0009); try again later"
            )
            .retryable()
        );
        let broken = StoreError::Corrupt { detail: "page 7".into() };
        assert_eq!(failure(&broken), ToolFailure::new(ToolErrorKind::Internal, "the notes are not usable (STO0008)"));
    }
}
