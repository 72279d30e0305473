//! Sessions: conversations of many runs. Any process can continue a session by its id.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use windlass_core::ids::{RunId, SessionId};

use crate::{
    AgentSpec, Client, Error, MessageSpec, Outcome, Session, SessionHistory, SessionPage, Tools, client::Ignored,
};

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// `active` or `ended`.
    pub status: Option<String>,
    /// Sessions must have all of these entries.
    pub metadata: BTreeMap<String, String>,
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// Creates a session whose runs may call these tools.
    pub async fn create_session(&self, spec: &AgentSpec, tools: &Tools) -> Result<SessionId, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Created {
            session_id: SessionId,
        }
        let created: Created = self.http().post(&["agent-sessions"], &tools.declared_in(spec)?).await?;
        Ok(created.session_id)
    }

    /// The session with its conversation.
    pub async fn session(&self, id: &SessionId) -> Result<Session, Error> {
        self.http().get(&["agent-sessions", id.as_str()], &[]).await
    }

    pub async fn sessions(&self, filter: &SessionFilter) -> Result<SessionPage, Error> {
        let SessionFilter { status, metadata, limit, cursor } = filter;
        let said =
            [("status", status.clone()), ("limit", limit.map(|limit| limit.to_string())), ("cursor", cursor.clone())];
        let mut query: Vec<(&str, String)> = said.into_iter().filter_map(|(key, said)| Some((key, said?))).collect();
        query.extend(metadata.iter().map(|(key, value)| ("metadata", format!("{key}:{value}"))));
        self.http().get(&["agent-sessions"], &query).await
    }

    /// The last messages of a conversation, or those before one of them.
    pub async fn session_history(
        &self,
        id: &SessionId,
        last_messages: Option<u32>,
        before_seq: Option<u64>,
    ) -> Result<SessionHistory, Error> {
        let said = [
            ("lastMessages", last_messages.map(|number| number.to_string())),
            ("beforeSeq", before_seq.map(|seq| seq.to_string())),
        ];
        let query: Vec<(&str, String)> = said.into_iter().filter_map(|(key, said)| Some((key, said?))).collect();
        self.http().get(&["agent-sessions", id.as_str(), "events"], &query).await
    }

    /// Says something in a session and returns the run that answers. It is sent until the server has answered, and said
    /// once.
    pub async fn start_message(&self, id: &SessionId, message: &MessageSpec, tools: &Tools) -> Result<RunId, Error> {
        let body = tools.declared_in(message)?;
        self.begin(&["agent-sessions", id.as_str(), "messages"], body).await
    }

    /// Says something in a session and waits for the answer. Tools that are given replace the session's for this run.
    pub async fn say(&self, id: &SessionId, message: &MessageSpec, tools: &Tools) -> Result<Outcome, Error> {
        let run = self.start_message(id, message, tools).await?;
        let schema = message.settings.output_schema.as_ref().map(|schema| schema.schema.clone());
        let outcome = self.drive(&run, tools, &HashSet::new(), |_| {}).await?;
        Ok(Outcome { schema, ..outcome })
    }

    /// Ends a session and cancels its open runs.
    pub async fn end_session(&self, id: &SessionId) -> Result<(), Error> {
        let _: Ignored = self.http().delete(&["agent-sessions", id.as_str()]).await?;
        Ok(())
    }
}
