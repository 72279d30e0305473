//! A worker that polls before its task is there.

use std::time::{Duration, Instant};

use temporalio_protos::temporal::api::{
    enums::v1::{PendingWorkflowTaskState, TaskQueueType},
    workflowservice::v1::{DescribeTaskQueueRequest, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse},
};
use tokio::task::JoinHandle;
use tonic::{Response, Status};

use super::{PATIENCE, Player, prompt, timed};
use crate::diff::{
    peer::NAMESPACE,
    script::{Action, Completion, Token, Who},
};

/// A poll that nothing comes of is over one second earlier.
const WAITING_POLL: Duration = Duration::from_secs(10);

/// How long a server may take to show that a worker polls.
const POLLER_PATIENCE: Duration = Duration::from_secs(2);

type Poll = JoinHandle<Result<Response<PollWorkflowTaskQueueResponse>, Status>>;

impl Player {
    pub(super) async fn attended(&mut self, cause: &Action, with: &Completion) {
        let Some(who) = cause.names().first().copied() else {
            return self.note("wait for a task", "left out: the cause names no workflow");
        };
        let memory = &self.memory;
        if memory.task_state(who).is_some() || memory.sticky.contains_key(&who) || memory.queries.contains_key(&who) {
            return self.note("wait for a task", "left out: a task or a query may come another way");
        }
        let poll = self.wait_at_queue(who).await;
        Box::pin(self.act(cause)).await;
        let mut answer = poll.await.expect("a poll does not panic");
        self.look().await;
        let empty = matches!(&answer, Ok(answer) if answer.get_ref().task_token.is_empty());
        if empty && self.memory.task_state(who) == Some(PendingWorkflowTaskState::Scheduled) {
            // Under load a server can take longer than a poll to queue a task.
            let queue = self.queue(who);
            answer = self.poll(queue, PATIENCE).await;
        }
        if let Some(task) = self.saw("the waiting worker", answer)
            && !task.task_token.is_empty()
        {
            self.take_task(who, &task);
            self.complete_task(who, Token::Last, with).await;
        }
    }

    /// Begins a poll, and returns when the server has it.
    async fn wait_at_queue(&mut self, who: Who) -> Poll {
        self.memory.waiting_workers += 1;
        let identity = format!("waiting-{}", self.memory.waiting_workers);
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: Some(self.queue(who)),
            identity: identity.clone(),
            ..Default::default()
        };
        let mut client = self.client.clone();
        let poll = tokio::spawn(async move { client.poll_workflow_task_queue(timed(request, WAITING_POLL)).await });
        let deadline = Instant::now() + POLLER_PATIENCE;
        while !self.is_polled(who, &identity).await && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        poll
    }

    async fn is_polled(&mut self, who: Who, identity: &str) -> bool {
        let request = DescribeTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: Some(self.queue(who)),
            task_queue_type: TaskQueueType::Workflow as i32,
            ..Default::default()
        };
        let described = self.client.describe_task_queue(prompt(request)).await;
        described.is_ok_and(|described| described.get_ref().pollers.iter().any(|poller| poller.identity == identity))
    }
}
