//! Who may execute a call, and what became of it.

use serde_json::{Value, json};
use windlass_core::{
    body::Body,
    envelope::{BlobRef, CallStatus, ToolOutput},
    event::NewEvent,
    ids::{CallId, RunId},
};

use super::{Bench, cancelled, code, note, run_id};
use crate::{CallClaim, CallSettlement, FinishedCall, NewClaim, Result};

const ONCE: bool = false;
const IDEMPOTENT: bool = true;
const FIRST: CallClaim = CallClaim::Execute { again: false };
const AGAIN: CallClaim = CallClaim::Execute { again: true };

/// One call of an open run, and the steps its executors and its workflow take.
struct Script {
    bench: Bench,
    run: RunId,
}

impl Script {
    async fn new(bench: Bench) -> Self {
        let run = run_id();
        bench.open(&run).await;
        Self { bench, run }
    }

    async fn claim(&self, call: &str, dispatch: u32, idempotent: bool) -> CallClaim {
        self.bench.store.claim_call(new_claim(&self.run, call, dispatch, idempotent)).await.unwrap()
    }

    async fn settle(&self, call: &str, dispatch: u32) -> CallSettlement {
        self.bench.store.settle_call(&self.run, &CallId::new(call), dispatch).await.unwrap()
    }

    async fn finish(&self, call: &str, dispatch: u32, output: &ToolOutput) -> Result<()> {
        self.bench.store.finish_call(&self.finished(call, dispatch, output)).await
    }

    fn finished(&self, call: &str, dispatch: u32, output: &ToolOutput) -> FinishedCall {
        FinishedCall {
            run: self.run.clone(),
            call: CallId::new(call),
            dispatch,
            idempotent: true,
            output: output.clone(),
            body: output.result().and_then(|result| result.inline().cloned()),
            event: result_event(call, output),
        }
    }

    async fn events_of(&self, call: &str) -> usize {
        let keys = self.bench.keys(&self.run).await;
        keys.iter().filter(|(_, key)| *key == format!("result/{call}")).count()
    }
}

pub(crate) fn new_claim(run: &RunId, call: &str, dispatch: u32, idempotent: bool) -> NewClaim {
    let event = note(&format!("begin/{call}"), "it begins");
    NewClaim { run: run.clone(), call: CallId::new(call), dispatch, idempotent, event }
}

fn result_event(call: &str, output: &ToolOutput) -> NewEvent {
    note(&format!("result/{call}"), &json!(output.result().and_then(|result| result.inline().cloned())).to_string())
}

fn output(payload: Value) -> ToolOutput {
    ToolOutput::new(CallStatus::Ok).with_result(&Body::Inline(payload.into()))
}

fn done(output: &ToolOutput) -> (CallClaim, CallSettlement) {
    (CallClaim::Finished(Box::new(output.clone())), CallSettlement::Finished(Box::new(output.clone())))
}

pub(crate) async fn a_claim_is_granted_once_per_dispatch(bench: Bench) {
    let script = Script::new(bench).await;
    assert_eq!(script.claim("once", 1, ONCE).await, FIRST);
    assert_eq!(script.claim("once", 1, ONCE).await, CallClaim::Unknown);
    assert_eq!(script.claim("once", 2, ONCE).await, CallClaim::Unknown);

    assert_eq!(script.claim("often", 1, IDEMPOTENT).await, FIRST);
    assert_eq!(script.claim("often", 1, IDEMPOTENT).await, AGAIN);
    assert_eq!(script.claim("often", 2, IDEMPOTENT).await, AGAIN);
    assert_eq!(script.claim("often", 1, IDEMPOTENT).await, CallClaim::Fenced);
}

pub(crate) async fn a_settlement_fences_off_what_never_began(bench: Bench) {
    let script = Script::new(bench).await;
    assert_eq!(script.settle("c", 1).await, CallSettlement::NeverStarted);
    assert_eq!(script.settle("c", 1).await, CallSettlement::NeverStarted);
    assert_eq!(script.claim("c", 1, IDEMPOTENT).await, CallClaim::Fenced);
    assert_eq!(script.settle("c", 2).await, CallSettlement::NeverStarted);
    assert_eq!(script.claim("c", 2, ONCE).await, CallClaim::Fenced);
    assert_eq!(script.claim("c", 1, ONCE).await, CallClaim::Fenced);
    assert_eq!(script.claim("c", 3, ONCE).await, FIRST);
    assert_eq!(script.claim("c", 2, IDEMPOTENT).await, CallClaim::Fenced);
    let output = output(json!("done"));
    script.finish("c", 3, &output).await.unwrap();
    assert_eq!(script.claim("c", 1, ONCE).await, done(&output).0);
}

pub(crate) async fn an_executor_that_went_silent_leaves_an_unknown_outcome(bench: Bench) {
    let script = Script::new(bench).await;
    for idempotent in [ONCE, IDEMPOTENT] {
        let call = format!("idempotent={idempotent}");
        assert_eq!(script.claim(&call, 1, idempotent).await, FIRST);
        assert_eq!(script.settle(&call, 1).await, CallSettlement::Unknown);
        assert_eq!(script.settle(&call, 1).await, CallSettlement::Unknown);
        assert_eq!(script.claim(&call, 1, idempotent).await, CallClaim::Fenced);
        assert_eq!(script.claim(&call, 2, idempotent).await, CallClaim::Fenced);
    }
}

pub(crate) async fn overtaken_attempts_change_nothing(bench: Bench) {
    let script = Script::new(bench).await;
    assert_eq!(script.settle("c", 1).await, CallSettlement::NeverStarted);
    assert_eq!(script.claim("c", 2, ONCE).await, FIRST);
    // Another attempt of the same settlement arrives after the call was handed out again.
    assert_eq!(script.settle("c", 1).await, CallSettlement::Unknown);
    // So does an outcome of the dispatch that was fenced off.
    script.finish("c", 1, &output(json!("stale"))).await.unwrap();
    assert_eq!(script.events_of("c").await, 0);
    let output = output(json!("done"));
    script.finish("c", 2, &output).await.unwrap();
    assert_eq!((script.claim("c", 2, ONCE).await, script.settle("c", 1).await), done(&output));
    assert_eq!(script.events_of("c").await, 1);
}

pub(crate) async fn finishing_stores_the_output_its_body_and_its_event(bench: Bench) {
    let script = Script::new(bench).await;
    let store = &script.bench.store;
    script.claim("c", 1, ONCE).await;
    let body = json!({"rows": [1.0, 2]});
    let text = r#"{"rows":[1,2]}"#;
    let reference = BlobRef { digest: windlass_core::canonical::Digest::of_json(&body), bytes: text.len() as u64 };
    let output = ToolOutput::new(CallStatus::Ok).with_result(&Body::Stored(reference));
    let finished = FinishedCall { body: Some(body.into()), ..script.finished("c", 1, &output) };
    store.finish_call(&finished).await.unwrap();
    assert_eq!(store.blob(&reference.digest).await.unwrap().unwrap().to_string(), text);
    assert_eq!((script.claim("c", 1, ONCE).await, script.settle("c", 1).await), done(&output));
    let log = script.bench.log(&script.run).await;
    let keys: Vec<&str> = log.iter().map(|event| event.key.as_str()).collect();
    assert_eq!((keys, log[2].body().unwrap()), (vec!["started", "begin/c", "result/c"], finished.event.body));
}

pub(crate) async fn finishing_twice_is_finishing_once(bench: Bench) {
    let script = Script::new(bench).await;
    script.claim("c", 1, IDEMPOTENT).await;
    let first = output(json!(1.0));
    script.finish("c", 1, &first).await.unwrap();
    script.finish("c", 1, &first).await.unwrap();
    assert_eq!(code(script.finish("c", 1, &output(json!(2))).await), "STO0005");
    assert_eq!(script.claim("c", 1, IDEMPOTENT).await, done(&output(json!(1))).0);
    assert_eq!(script.events_of("c").await, 1);
}

pub(crate) async fn a_late_outcome_is_no_event(bench: Bench) {
    let script = Script::new(bench).await;
    script.claim("c", 1, ONCE).await;
    assert_eq!(script.settle("c", 1).await, CallSettlement::Unknown);
    script.finish("c", 1, &output(json!("late"))).await.unwrap();
    script.finish("c", 1, &output(json!("later"))).await.unwrap();
    assert_eq!(script.settle("c", 1).await, CallSettlement::Unknown);
    assert_eq!(script.events_of("c").await, 0);
}

pub(crate) async fn a_body_must_match_its_reference(bench: Bench) {
    let script = Script::new(bench).await;
    let store = &script.bench.store;
    script.claim("c", 1, ONCE).await;
    let stored = store.put_blob(json!("stored earlier").into()).await.unwrap();
    let missing = BlobRef { digest: windlass_core::canonical::Digest::ZERO, bytes: 1 };
    let with_ref = |reference| ToolOutput::new(CallStatus::Ok).with_result(&Body::Stored(reference));
    let another_body = FinishedCall { body: Some(json!("other").into()), ..script.finished("c", 1, &with_ref(stored)) };
    assert_eq!(code(store.finish_call(&another_body).await), "STO0011");
    assert_eq!(code(script.finish("c", 1, &with_ref(missing)).await), "STO0011");
    assert_eq!(script.events_of("c").await, 0);
    script.finish("c", 1, &with_ref(stored)).await.unwrap();
    assert_eq!(script.claim("c", 1, ONCE).await, done(&with_ref(stored)).0);
}

pub(crate) async fn a_call_needs_a_claim_and_a_run(bench: Bench) {
    let script = Script::new(bench).await;
    let (store, call) = (&script.bench.store, CallId::new("c"));
    assert_eq!(code(script.finish("c", 1, &output(json!(1))).await), "STO0012");
    script.settle("c", 1).await;
    assert_eq!(code(script.finish("c", 1, &output(json!(1))).await), "STO0012");
    script.claim("c", 2, ONCE).await;
    assert_eq!(code(script.finish("c", 3, &output(json!(1))).await), "STO0012");

    let missing = RunId::new("missing");
    assert_eq!(code(store.claim_call(new_claim(&missing, "c", 1, ONCE)).await), "STO0001");
    assert_eq!(code(store.settle_call(&missing, &call, 1).await), "STO0001");

    store.append_events(&script.run, vec![cancelled("end")]).await.unwrap();
    assert_eq!(code(script.finish("c", 2, &output(json!(1))).await), "STO0006");
    assert_eq!(script.settle("c", 2).await, CallSettlement::Unknown);
}
