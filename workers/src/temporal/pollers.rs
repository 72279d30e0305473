//! The pollers of a task queue, as the server lists them.

use temporalio_client::{
    Client, NamespacedClient,
    tonic::{IntoRequest, Status},
};
use temporalio_protos::temporal::api::{
    enums::v1::TaskQueueType, taskqueue::v1::TaskQueue, workflowservice::v1::DescribeTaskQueueRequest,
};

/// Identities of the processes that polled recently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pollers {
    pub workflows: Vec<String>,
    pub activities: Vec<String>,
}

impl Pollers {
    /// Whether this process polls for both workflow tasks and activity tasks.
    pub fn include(&self, identity: &str) -> bool {
        [&self.workflows, &self.activities].iter().all(|pollers| pollers.iter().any(|poller| poller == identity))
    }
}

pub async fn pollers(client: &Client, task_queue: &str) -> Result<Pollers, Status> {
    Ok(Pollers {
        workflows: of_type(client, task_queue, TaskQueueType::Workflow).await?,
        activities: of_type(client, task_queue, TaskQueueType::Activity).await?,
    })
}

async fn of_type(client: &Client, task_queue: &str, kind: TaskQueueType) -> Result<Vec<String>, Status> {
    let request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue { name: task_queue.to_owned(), ..TaskQueue::default() }),
        task_queue_type: kind.into(),
        ..DescribeTaskQueueRequest::default()
    };
    let described = client.connection().workflow_service().describe_task_queue(request.into_request()).await?;
    Ok(described.into_inner().pollers.into_iter().map(|poller| poller.identity).collect())
}
