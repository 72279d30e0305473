//! What a tool reports while it works, as events of the run.

use std::future::Future;

use windlass_core::{
    envelope::ToolInput,
    event::{EventBody, NewEvent},
};
use windlass_store::Events;
use windlass_tools::{Progress, ProgressSink};

use crate::RunSecrets;

/// The longest message of a report.
const MESSAGE_BYTES: usize = 1024;

/// Executes a call and appends its reports. All of them are in the log before the call's result is.
pub(crate) async fn with_progress<T, F: Future<Output = T>>(
    log: &dyn Events,
    input: &ToolInput,
    attempt: u32,
    secrets: &RunSecrets,
    call: impl FnOnce(ProgressSink) -> F,
) -> T {
    let (sink, reports) = ProgressSink::new();
    let mut call = std::pin::pin!(call(sink));
    let mut number = 0_u64;
    let mut append = async |mut report: Progress| {
        number += 1;
        // Clipped after that: the rest of a secret would not be found.
        report.message = report.message.map(|message| clip(secrets.redaction().text(message)));
        // If the log is closed or the store is unavailable, the report is lost, but not the call.
        let _ = log.append_events(&input.run_id, vec![event(input, attempt, number, report)]).await;
    };
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut call => break outcome,
            report = reports.next() => append(report).await,
        }
    };
    while let Some(report) = reports.take() {
        append(report).await;
    }
    outcome
}

fn event(input: &ToolInput, attempt: u32, number: u64, report: Progress) -> NewEvent {
    let (call, dispatch) = (input.journal_id(), input.dispatch);
    let body = EventBody::ToolProgress {
        tool_use_id: input.tool_call_id.clone(),
        name: input.tool_name.clone(),
        attempt,
        message: report.message,
        progress: report.done.filter(|done| done.is_finite()),
        total: report.total.filter(|total| total.is_finite()),
    };
    NewEvent::new(format!("call/{call}/progress/{dispatch}/{attempt}/{number}"), body)
}

pub(crate) fn clip(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
    message
}
