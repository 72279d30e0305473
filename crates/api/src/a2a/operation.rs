//! The operations of the protocol, independent of the binding.

use a2a::{
    A2AError, CancelTaskRequest, GetTaskRequest, ListTasksRequest, SendMessageRequest, SendMessageResponse,
    SubscribeToTaskRequest, methods,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    card::{self, Base},
    error::{Refusal, Result},
    push, send,
    stream::Updates,
    tasks, tenant, v03,
    visit::Visit,
};
use crate::{auth::Scope, error::ApiError, rate::Bucket};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    SendMessage,
    SendStreamingMessage,
    GetTask,
    ListTasks,
    CancelTask,
    SubscribeToTask,
    CreatePushConfig,
    GetPushConfig,
    ListPushConfigs,
    DeletePushConfig,
    GetExtendedAgentCard,
}

/// The result of an operation.
pub(crate) enum Outcome {
    Value(Value),
    Stream(Box<Updates>),
}

impl Operation {
    /// By its name in JSON-RPC.
    pub(crate) fn named(method: &str) -> Option<Self> {
        Some(match method {
            methods::SEND_MESSAGE => Self::SendMessage,
            methods::SEND_STREAMING_MESSAGE => Self::SendStreamingMessage,
            methods::GET_TASK => Self::GetTask,
            methods::LIST_TASKS => Self::ListTasks,
            methods::CANCEL_TASK => Self::CancelTask,
            methods::SUBSCRIBE_TO_TASK => Self::SubscribeToTask,
            methods::CREATE_PUSH_CONFIG => Self::CreatePushConfig,
            methods::GET_PUSH_CONFIG => Self::GetPushConfig,
            methods::LIST_PUSH_CONFIGS => Self::ListPushConfigs,
            methods::DELETE_PUSH_CONFIG => Self::DeletePushConfig,
            methods::GET_EXTENDED_AGENT_CARD => Self::GetExtendedAgentCard,
            _ => return None,
        })
    }

    /// Executes the operation with parameters in the form of version 1.0.
    pub(crate) async fn execute(self, visit: &mut Visit, params: Value, base: &Base) -> Result<Outcome> {
        tenant::check(visit, params.get("tenant").and_then(Value::as_str))?;
        match self {
            Self::SendMessage => {
                let task = send::send(visit, read(params)?).await?;
                value(&SendMessageResponse::Task(task))
            }
            Self::SendStreamingMessage => {
                let request: SendMessageRequest = read(params)?;
                Ok(Outcome::Stream(Box::new(send::stream(visit, request).await?)))
            }
            Self::SubscribeToTask => {
                visit.admit(Some(Scope::RunsRead), Bucket::Streams)?;
                let SubscribeToTaskRequest { id, .. } = read(params)?;
                Ok(Outcome::Stream(Box::new(send::subscribe(visit, &id).await?)))
            }
            Self::GetTask => {
                visit.admit(Some(Scope::RunsRead), Bucket::Reads)?;
                let _place = visit.place()?;
                let request: GetTaskRequest = read(params)?;
                value(&tasks::get(visit, &request).await?)
            }
            Self::ListTasks => {
                visit.admit(Some(Scope::RunsRead), Bucket::Reads)?;
                let _place = visit.place()?;
                let request: ListTasksRequest = read(params)?;
                value(&tasks::list(visit, request).await?)
            }
            Self::CancelTask => {
                visit.admit(Some(Scope::RunsWrite), Bucket::Lifecycle)?;
                let _place = visit.place()?;
                let request: CancelTaskRequest = read(params)?;
                value(&tasks::cancel(visit, &request).await?)
            }
            Self::CreatePushConfig => {
                visit.admit(Some(Scope::RunsWrite), Bucket::Lifecycle)?;
                let _place = visit.place()?;
                value(&push::create(visit, read(params)?).await?)
            }
            Self::GetPushConfig => {
                visit.admit(Some(Scope::RunsRead), Bucket::Reads)?;
                let _place = visit.place()?;
                value(&push::get(visit, read(params)?).await?)
            }
            Self::ListPushConfigs => {
                visit.admit(Some(Scope::RunsRead), Bucket::Reads)?;
                let _place = visit.place()?;
                value(&push::list(visit, read(params)?).await?)
            }
            Self::DeletePushConfig => {
                visit.admit(Some(Scope::RunsWrite), Bucket::Lifecycle)?;
                let _place = visit.place()?;
                push::delete(visit, read(params)?).await?;
                Ok(Outcome::Value(json!({})))
            }
            Self::GetExtendedAgentCard => {
                visit.admit(None, Bucket::Reads)?;
                let card = card::card(&visit.agent, base, &visit.caller.workspace, visit.app.vault.is_some());
                Ok(Outcome::Value(v03::card(&card)))
            }
        }
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T> {
    serde_json::from_value(params).map_err(|error| A2AError::invalid_params(format!("params: {error}")).into())
}

fn value<T: Serialize>(result: &T) -> Result<Outcome> {
    serde_json::to_value(result).map(Outcome::Value).map_err(|error| Refusal::Http(ApiError::internal(&error)))
}
