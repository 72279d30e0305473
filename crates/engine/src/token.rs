//! Opaque tokens for tasks and pages. They contain all the state they need, so they survive restarts.

use prost::Message as _;
use temporalio_protos::temporal::api::history::v1::HistoryEvent;

use crate::{core::Target, service_error::ServiceError, time::Nanos};

/// Identifies a task that was given to a worker.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TaskToken {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) workflow_id: String,
    #[prost(string, tag = "3")]
    pub(crate) run_id: String,
    #[prost(int64, tag = "4")]
    pub(crate) scheduled_id: i64,
    #[prost(int64, tag = "5")]
    pub(crate) started_id: i64,
    #[prost(int32, tag = "6")]
    pub(crate) attempt: i32,
    /// For a query task.
    #[prost(string, tag = "7")]
    pub(crate) query_id: String,
    /// Distinguishes two starts of the same attempt, of which one was lost.
    #[prost(int64, tag = "8")]
    pub(crate) started_time: Nanos,
}

impl TaskToken {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ServiceError> {
        if bytes.is_empty() {
            return Err(ServiceError::invalid("Task token not set on request."));
        }
        let garbled = || ServiceError::invalid("Error deserializing task token.");
        let token = Self::decode(bytes).map_err(|_| garbled())?;
        if token.workflow_id.is_empty() { Err(garbled()) } else { Ok(token) }
    }

    pub(crate) fn target(&self) -> Target {
        Target::new(&self.namespace, &self.workflow_id, &self.run_id)
    }
}

/// Identifies a Nexus task that was given to a worker: the calling run and its request.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NexusTaskToken {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) workflow_id: String,
    #[prost(string, tag = "3")]
    pub(crate) run_id: String,
    #[prost(int64, tag = "4")]
    pub(crate) scheduled_id: i64,
    #[prost(bool, tag = "5")]
    pub(crate) cancel: bool,
    #[prost(int32, tag = "6")]
    pub(crate) attempt: i32,
}

impl NexusTaskToken {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ServiceError> {
        if bytes.is_empty() {
            return Err(ServiceError::invalid("Task token not set on request."));
        }
        let token = Self::decode(bytes).map_err(|_| ServiceError::invalid("Error deserializing task token."))?;
        if token.workflow_id.is_empty() { Err(ServiceError::invalid("Invalid TaskToken.")) } else { Ok(token) }
    }
}

/// Names the operation that a completion callback completes. Handlers pass it on as a header.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CallbackToken {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) workflow_id: String,
    #[prost(string, tag = "3")]
    pub(crate) run_id: String,
    #[prost(int64, tag = "4")]
    pub(crate) scheduled_id: i64,
    #[prost(string, tag = "5")]
    pub(crate) request_id: String,
}

impl CallbackToken {
    /// As a header's value.
    pub(crate) fn text(&self) -> String {
        self.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        let bytes = digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()?;
        Self::decode(&*bytes).ok().filter(|token| !token.workflow_id.is_empty())
    }
}

/// Where a page of history ended.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HistoryToken {
    #[prost(string, tag = "1")]
    pub(crate) run_id: String,
    /// Forwards: events after this one follow. Backwards: events before it.
    #[prost(int64, tag = "2")]
    pub(crate) position: i64,
    /// Where the pages end, if not with the history; zero otherwise.
    #[prost(int64, tag = "3")]
    pub(crate) until: i64,
    /// Events that are shown to a worker and are not in history yet.
    #[prost(message, repeated, tag = "4")]
    pub(crate) unwritten: Vec<HistoryEvent>,
}

impl HistoryToken {
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, ServiceError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let token = Self::decode(bytes).map_err(|_| ServiceError::invalid("Invalid NextPageToken."))?;
        Ok(Some(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_token_is_read_from_its_text_and_nothing_else_is() {
        let token = CallbackToken {
            namespace: "here".to_owned(),
            workflow_id: "ü".to_owned(),
            run_id: "run".to_owned(),
            scheduled_id: 5,
            request_id: "request".to_owned(),
        };
        assert_eq!(CallbackToken::parse(&token.text()), Some(token));
        for text in ["", "?", "0", "zz", "ü", "0a"] {
            assert_eq!(CallbackToken::parse(text), None, "{text:?}");
        }
    }
}
