//! Questions of the model to a person.

use serde_json::json;

use super::bench::bench;
use crate::envelope::AwaitRequest;

#[test]
fn a_clarification_shows_what_the_model_says_is_missing() {
    let mut bench = bench(json!({}), json!({}));
    bench.begin();
    let request = AwaitRequest::Clarification {
        question: "Which note?".to_owned(),
        missing_fields: vec!["key".to_owned(), "text".to_owned()],
        restrict_to_tool: Some("notes.add".into()),
        example_input: Some(json!({"text": "t", "key": "k"})),
        clarifying_prompt: Some("Be exact.".to_owned()),
        default_answer: None,
        expires_in_ms: None,
        on_expiry: None,
    };
    bench.says(&[], vec![request]);
    let item = &bench.run.state().awaits.pending()[0];
    let note = "Be exact.\nFor the tool notes.add.\nMissing: key, text.\nFor example: {\"key\":\"k\",\"text\":\"t\"}";
    assert_eq!((item.prompt.as_str(), item.title.as_deref()), ("Which note?", Some(note)));
}
