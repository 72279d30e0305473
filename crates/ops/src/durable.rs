//! Answers as signals: they have no reply, and are durable while no worker is running.

use windlass_core::{
    awaits::addressed,
    envelope::{Answer, AnswerBody, ClarificationAnswer, ConfirmationDecision, Extra, Labels, ToolResultsSet},
    ids::RunId,
};
use windlass_workflows::RunWorkflow;

use super::{OpsError, RunOps, payload};

impl RunOps {
    /// Sends an answer as a signal. The run accepts or rejects it when a worker processes it; the run's log has the outcome.
    pub async fn signal_answer(&self, run: &RunId, answer: Answer) -> Result<(), OpsError> {
        let Answer { await_id, actor: requested_by, body, .. } = answer;
        let (run, id) = addressed(run, &await_id);
        self.check_owner(&run).await?;
        let (handle, run_id) = (self.handle(&run), Some(run.clone()));
        let labels = Labels::new();
        let sent = match body {
            AnswerBody::Clarification { answer } => {
                let signal = ClarificationAnswer { run_id, id, answer, requested_by, labels };
                handle.signal(RunWorkflow::provide_clarification, payload(&signal), Default::default()).await
            }
            AnswerBody::Confirmation { grant: Some(_), .. } => {
                let message = "a grant cannot be sent as a signal; send the approval without --signal";
                return Err(OpsError::Input(message.to_owned()));
            }
            AnswerBody::Confirmation { approved, digest, reason, grant: None } => {
                let metadata = Extra::new();
                let signal =
                    ConfirmationDecision { run_id, id, approved, requested_by, digest, reason, labels, metadata };
                handle.signal(RunWorkflow::provide_confirmation, payload(&signal), Default::default()).await
            }
            // The signals are loom-mcp's, and none of them carries arguments.
            AnswerBody::EditedApproval { .. } => {
                let message = "an approval with other arguments cannot be sent as a signal; send it without --signal";
                return Err(OpsError::Input(message.to_owned()));
            }
            AnswerBody::ToolResults { results } => {
                let signal = ToolResultsSet { run_id, id, results, requested_by, labels };
                handle.signal(RunWorkflow::provide_tool_results, payload(&signal), Default::default()).await
            }
        };
        sent.map_err(|error| OpsError::interaction(&run, &error))
    }
}
