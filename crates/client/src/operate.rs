//! Requests of operators that only Windlass has, beyond the agent-runs protocol.

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{
    envelope::{AnswerBody, AnswerReply, AnswerStatus, RunStatusView},
    event::Event,
    ids::{AwaitId, RunId},
    message::Message,
    row::RunRow,
};

use crate::{Client, Error, Kept, Refusal, RowPage, RunFilter, Transcript, Update};

/// A response with the run's row.
#[derive(Deserialize)]
struct WithRow {
    row: Option<RunRow>,
    live: Option<RunStatusView>,
}

/// The page size of transcripts.
const TRANSCRIPT_PAGE: u32 = 50;

#[derive(Deserialize)]
struct TranscriptPage {
    messages: Vec<Message>,
    opening: u64,
    earlier: u64,
    more: bool,
}

impl Client {
    /// The run's row in the store.
    pub async fn row(&self, run: &RunId) -> Result<RunRow, Error> {
        Ok(self.kept(run, &["row"]).await?.row)
    }

    /// The run's row in the store, and its live status.
    pub async fn look(&self, run: &RunId) -> Result<Kept, Error> {
        self.kept(run, &["row", "live"]).await
    }

    async fn kept(&self, run: &RunId, wanted: &[&'static str]) -> Result<Kept, Error> {
        let query: Vec<_> = wanted.iter().map(|flag| (*flag, "1".to_owned())).collect();
        let WithRow { row, live } = self.http().get(&["agent-runs", run.as_str()], &query).await?;
        Ok(Kept { row: self.present(row)?, live })
    }

    /// The rows of runs in the store.
    pub async fn rows(&self, filter: &RunFilter) -> Result<RowPage, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            runs: Vec<WithRow>,
            next_cursor: Option<String>,
            #[serde(default)]
            unreadable: u64,
        }
        let mut query = filter.query();
        query.push(("row", "1".to_owned()));
        let Page { runs, next_cursor, unreadable } = self.http().get(&["agent-runs"], &query).await?;
        let rows = runs.into_iter().map(|run| self.present(run.row)).collect::<Result<_, _>>()?;
        Ok(RowPage { rows, next_cursor, unreadable })
    }

    fn present(&self, row: Option<RunRow>) -> Result<RunRow, Error> {
        let reason = "the response has no rows of runs; the server is not a Windlass server, or an older one";
        row.ok_or_else(|| Error::InvalidResponse { url: self.http().origin(), reason: reason.to_owned() })
    }

    /// The run's log after `after`, as far as it reaches by now.
    pub async fn log_so_far(&self, run: &RunId, after: u64) -> Result<Vec<Event>, Error> {
        let last = self.get(run).await?.last_seq.unwrap_or(0);
        let (mut events, mut log) = (Vec::new(), self.log(run, after));
        let mut read = after;
        while read < last
            && let Some(update) = log.next().await
        {
            if let Update::Event(event) = update? {
                read = event.seq;
                events.push(event);
            }
        }
        Ok(events)
    }

    /// The run's conversation, as far as it reaches by now.
    pub async fn transcript(&self, run: &RunId) -> Result<Transcript, Error> {
        let mut whole = Transcript::default();
        loop {
            let (after, limit) = (whole.messages.len(), TRANSCRIPT_PAGE);
            let query = [("after", after.to_string()), ("limit", limit.to_string())];
            let page: TranscriptPage = self.http().get(&["agent-runs", run.as_str(), "transcript"], &query).await?;
            let more = page.more && !page.messages.is_empty();
            whole.messages.extend(page.messages);
            (whole.opening, whole.earlier) = (page.opening, page.earlier);
            if !more {
                return Ok(whole);
            }
        }
    }

    /// [`Client::cancel`] with a reason for the run's log.
    pub async fn cancel_because(&self, run: &RunId, reason: &str) -> Result<(), Error> {
        self.tell(run, "cancel", json!({"reason": reason})).await
    }

    /// [`Client::resume`] with a user message for the model.
    pub async fn resume_with(&self, run: &RunId, notes: &str, message: &str) -> Result<(), Error> {
        self.tell(run, "resume", json!({"notes": notes, "message": message})).await
    }

    /// Answers an await of any kind, and returns the run's reply, also if it rejected the answer.
    pub async fn submit(&self, run: &RunId, id: &AwaitId, answer: &AnswerBody) -> Result<AnswerReply, Error> {
        let (to, body) = match answer {
            AnswerBody::Clarification { answer } => ("answers", json!({"awaitId": id, "answer": answer})),
            AnswerBody::ToolResults { results } => ("answers", json!({"awaitId": id, "results": results})),
            AnswerBody::EditedApproval { digest, arguments, reason } => (
                "confirmations",
                json!({"awaitId": id, "approved": true, "digest": digest, "reason": reason, "arguments": arguments}),
            ),
            AnswerBody::Confirmation { approved, digest, reason, grant } => (
                "confirmations",
                json!({"awaitId": id, "approved": approved, "digest": digest, "reason": reason, "grant": grant}),
            ),
        };
        match self.heard(run, to, body).await {
            Err(Error::Refused(refusal)) => reply_in(&refusal).ok_or(Error::Refused(refusal)),
            replied => replied,
        }
    }
}

/// The run's reply in an error response, if the answer reached the run.
fn reply_in(refusal: &Refusal) -> Option<AnswerReply> {
    let status: AnswerStatus = serde_json::from_value(refusal.body.get("status")?.clone()).ok()?;
    let reason = refusal.body.get("reason").and_then(Value::as_str).unwrap_or(&refusal.message);
    Some(AnswerReply::new(status, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_the_run_is_distinguished_from_an_error_of_the_server() {
        let reply = |status: u16, body: Value| reply_in(&Refusal::new(status, None, body.to_string().as_bytes()));
        let expired = json!({"code": "await_closed", "message": "m", "status": "expired", "reason": "too late"});
        assert_eq!(reply(409, expired), Some(AnswerReply::new(AnswerStatus::Expired, "too late")));
        let unknown = json!({"code": "not_found", "message": "no such await", "status": "unknown"});
        assert_eq!(reply(404, unknown), Some(AnswerReply::new(AnswerStatus::Unknown, "no such await")));
        assert_eq!(reply(404, json!({"code": "not_found", "message": "no such run"})), None);
        assert_eq!(reply(502, json!({"status": 502})), None);
    }
}
