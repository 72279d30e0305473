//! What a row keeps of the event that closed its run.

use windlass_core::{
    envelope::TokenUsage,
    event::{EventBody, NewEvent},
    run::{Phase, RunStatus},
    time::Millis,
};

use super::{Bench, batch, note, run_id};
use crate::{Ending, RecordBatch};

fn usage() -> TokenUsage {
    TokenUsage { input_tokens: 7, output_tokens: 2, total_tokens: 9, ..TokenUsage::default() }
}

pub(crate) fn result(text: &str) -> NewEvent {
    let body = EventBody::Result {
        text: text.to_owned(),
        subtype: EventBody::SUCCESS.to_owned(),
        error: None,
        error_class: None,
        finish_reason: Some("stop".into()),
        finalized: None,
        turns: 3,
        tool_calls: 2,
        active_ms: Millis(5),
        usage: usage(),
        model: None,
        structured_output: None,
    };
    NewEvent::new("end", body)
}

pub(crate) async fn a_row_keeps_what_its_terminal_event_says(bench: Bench) {
    let (run, text) = (run_id(), "é".repeat(500));
    let head = bench.open(&run).await;
    let last = RecordBatch {
        events: vec![note("a", "x"), result(&text)],
        status: RunStatus::Completed,
        phase: Phase::Done,
        ..batch(&run, head)
    };
    bench.store.record(last.clone()).await.unwrap();
    let expected = Ending {
        output_preview: Some("é".repeat(120)),
        finish_reason: Some("stop".into()),
        usage: Some(usage()),
        turns: Some(3),
        tool_calls: Some(2),
        ..Ending::default()
    };
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().ending, Some(expected));
    assert_eq!(bench.store.final_text(&run).await.unwrap(), Some(text));
    let before = bench.store.run(&run).await.unwrap();
    bench.store.record(last).await.unwrap();
    assert_eq!(bench.store.run(&run).await.unwrap(), before);
}

pub(crate) async fn an_error_keeps_the_partial_text(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    let body = EventBody::Error {
        code: "overloaded".to_owned(),
        error: "the model did not answer".to_owned(),
        error_class: Some("overloaded".to_owned()),
        failure: Some("RUN0001".to_owned()),
        retryable: true,
        api_status: Some(529),
        api_code: Some("overloaded_error".to_owned()),
        finish_reason: Some("error".into()),
        partial_text: Some("I think".to_owned()),
        turns: 1,
        tool_calls: 0,
        active_ms: Millis(5),
        usage: usage(),
        model: None,
        structured_output: None,
    };
    bench.store.append_events(&run, vec![NewEvent::new("end", body)]).await.unwrap();
    let expected = Ending {
        output_preview: Some("I think".to_owned()),
        finish_reason: Some("error".into()),
        error: Some("the model did not answer".to_owned()),
        error_class: Some("overloaded".to_owned()),
        usage: Some(usage()),
        turns: Some(1),
        tool_calls: Some(0),
        ..Ending::default()
    };
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().ending, Some(expected));
    assert_eq!(bench.store.final_text(&run).await.unwrap(), Some("I think".to_owned()));
}

pub(crate) async fn a_run_that_goes_on_has_no_ending(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().ending, None);
    assert_eq!(bench.store.final_text(&run).await.unwrap(), None);
}
