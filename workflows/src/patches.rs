//! Changes of the workflow's commands. A run whose history is older than a patch goes on as it began; see Temporal's
//! documentation of patching.

/// A turn is judged by its stop reason even if it asks for calls, `content_filter` and `context_window` fail the run, and
/// `pause_turn` continues the answer.
pub(crate) const STOP_OUTCOMES: &str = "stop-outcomes";

/// An answer that does not match the output schema is sent back to the model once.
pub(crate) const REPAIR_TURN: &str = "repair-turn";

/// A call whose tool is not finished goes on in another round. Before, such an output was a failure.
pub(crate) const CALL_ROUNDS: &str = "call-rounds";

/// Heartbeats of a tool that is an activity on another task queue are followed by an activity of the run.
pub(crate) const HEARTBEAT_PROGRESS: &str = "heartbeat-progress";
