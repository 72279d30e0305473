//! Starts one workflow, signals it and waits for the end of its chain.

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    common::v1::WorkflowType,
    enums::v1::WorkflowIdReusePolicy,
    history::v1::history_event::Attributes,
    workflowservice::v1::{
        SignalWithStartWorkflowExecutionRequest, SignalWorkflowExecutionRequest, StartWorkflowExecutionRequest,
    },
};
use tonic::Code;

use super::{
    client::{Client, NAMESPACE, QUEUE, execution, milliseconds, payloads, queue},
    journal::{Journal, Signal},
    plan::{GO, Plan, TASK_TIMEOUT, WORKFLOW},
};
use crate::proofs::dice::Dice;

pub(super) struct Driver {
    pub(super) client: Client,
    pub(super) journal: Arc<Journal>,
}

impl Driver {
    /// Drives one random workflow to its end.
    pub(super) async fn drive(&self, workflow_id: &str, dice: &mut Dice) {
        let mut plan = Plan::random(dice);
        let run_id = if dice.chance(25) {
            // The signal that comes with the start is one more.
            plan.signals += 1;
            self.signal_with_start(workflow_id, &plan).await
        } else {
            self.start(workflow_id, &plan).await
        };
        self.journal.facts().starts.insert(workflow_id.to_owned(), run_id.clone());
        let sent_with_start = self.journal.facts().signals.values().filter(|it| it.workflow_id == workflow_id).count();
        for _ in sent_with_start..plan.signals {
            self.signal(workflow_id, &run_id).await;
        }
        self.follow(workflow_id, run_id).await;
    }

    async fn start(&self, workflow_id: &str, plan: &Plan) -> String {
        let request = StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: workflow_id.to_owned(),
            workflow_type: Some(WorkflowType { name: WORKFLOW.to_owned() }),
            task_queue: queue(QUEUE),
            input: payloads(&plan.write()),
            workflow_task_timeout: milliseconds(TASK_TIMEOUT),
            request_id: uuid::Uuid::new_v4().to_string(),
            workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate as i32,
            ..StartWorkflowExecutionRequest::default()
        };
        let send = self.client.insist(request, async |stub, request| stub.start_workflow_execution(request).await);
        let (answer, repeats) = send.await;
        self.journal.repeated("starts", repeats);
        answer.unwrap().run_id
    }

    async fn signal_with_start(&self, workflow_id: &str, plan: &Plan) -> String {
        let request_id = self.intend_signal(workflow_id);
        let request = SignalWithStartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: workflow_id.to_owned(),
            workflow_type: Some(WorkflowType { name: WORKFLOW.to_owned() }),
            task_queue: queue(QUEUE),
            input: payloads(&plan.write()),
            workflow_task_timeout: milliseconds(TASK_TIMEOUT),
            request_id: request_id.clone(),
            signal_name: GO.to_owned(),
            ..SignalWithStartWorkflowExecutionRequest::default()
        };
        let send =
            async |stub: &mut super::client::Stub, request| stub.signal_with_start_workflow_execution(request).await;
        let (answer, repeats) = self.client.insist(request, send).await;
        self.journal.repeated("signals with start", repeats);
        let run_id = answer.unwrap().run_id;
        self.acknowledge_signal(&request_id);
        run_id
    }

    async fn signal(&self, workflow_id: &str, run_id: &str) {
        let request_id = self.intend_signal(workflow_id);
        let request = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(workflow_id, run_id),
            signal_name: GO.to_owned(),
            request_id: request_id.clone(),
            ..SignalWorkflowExecutionRequest::default()
        };
        let send = self.client.insist(request, async |stub, request| stub.signal_workflow_execution(request).await);
        let (answer, repeats) = send.await;
        self.journal.repeated("signals", repeats);
        match answer {
            Ok(_) => self.acknowledge_signal(&request_id),
            // The run does not end without all of its signals, so an earlier try must have arrived.
            Err(status) if status.code() == Code::NotFound && repeats > 0 => self.acknowledge_signal(&request_id),
            Err(status) => panic!("a signal was refused: {status}"),
        }
    }

    fn intend_signal(&self, workflow_id: &str) -> String {
        let request_id = uuid::Uuid::new_v4().to_string();
        let signal = Signal { workflow_id: workflow_id.to_owned(), acknowledged: false };
        self.journal.facts().signals.insert(request_id.clone(), signal);
        request_id
    }

    fn acknowledge_signal(&self, request_id: &str) {
        self.journal.facts().signals.get_mut(request_id).unwrap().acknowledged = true;
    }

    /// Waits for the end of the last run of the chain.
    async fn follow(&self, workflow_id: &str, mut run_id: String) {
        loop {
            match self.client.end_of(workflow_id, &run_id).await.attributes {
                Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(end)) => {
                    run_id = end.new_execution_run_id;
                }
                Some(Attributes::WorkflowExecutionCompletedEventAttributes(_)) => return,
                other => panic!("{workflow_id} ended otherwise than planned: {other:?}"),
            }
        }
    }
}
