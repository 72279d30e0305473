//! Request bodies as the OpenAPI document describes them. Specs are parsed and checked by `crate::spec`; these types only
//! list their fields. The bodies of operator requests are parsed into these types.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass_core::{
    approval::{GrantArguments, GrantLevel, GrantRequest},
    time::Millis,
};

macro_rules! described {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(ToSchema)]
            #[schema(rename_all = "camelCase")]
            #[expect(dead_code, reason = "read as JSON by `crate::spec`")]
            pub(crate) struct $name { $($(#[$field_doc])* $field: $kind,)* }
        )*
    };
}

described! {
    /// An agent and its input. One of `agentId`, `systemPrompt` or a system message is required, and exactly one of
    /// `prompt` and `messages`.
    RunBody {
        system_prompt: Option<String>,
        agent_id: Option<String>,
        prompt: Option<String>,
        messages: Option<Vec<MessageItem>>,
        name: Option<String>,
        model_id: Option<String>,
        /// Asked when the provider of the model does not answer.
        fallback_model_id: Option<String>,
        /// `local`, `a2a_local`, `mcp_local`, or `mantyx` with the id of a tool of this server.
        tools: Option<Vec<Value>>,
        /// `off`, `low`, `medium`, `high`, or 0 to 100.
        reasoning_level: Option<Value>,
        output_schema: Option<OutputSchemaBody>,
        /// `false`, or `consecutiveThreshold` (2 to 100) and `hardCutoffThreshold` (3 to 100).
        loop_detection: Option<Value>,
        tool_budgets: Option<BTreeMap<String, Budget>>,
        budgets: Option<RunBudgets>,
        /// At most 16 entries.
        metadata: Option<BTreeMap<String, String>>,
        /// A whole agent definition, instead of `agentId`; not for keys that are bound to agents.
        definition: Option<Value>,
        /// The run's id. The same request with the same id returns the same run; another request gets `run_exists`.
        run_id: Option<String>,
        /// The session to continue; it is created on first use.
        session_id: Option<String>,
        /// Limits of this run; not for keys that are bound to agents.
        policy: Option<Value>,
        /// Labels of the run's workflow.
        labels: Option<BTreeMap<String, String>>,
        /// Approval rules of this run and of its child runs.
        approvals: Option<Vec<Value>>,
    }

    /// The agent and the settings of the session's runs.
    SessionBody {
        system_prompt: Option<String>,
        agent_id: Option<String>,
        name: Option<String>,
        model_id: Option<String>,
        /// Asked when the provider of the model does not answer.
        fallback_model_id: Option<String>,
        tools: Option<Vec<Value>>,
        reasoning_level: Option<Value>,
        output_schema: Option<OutputSchemaBody>,
        loop_detection: Option<Value>,
        tool_budgets: Option<BTreeMap<String, Budget>>,
        budgets: Option<RunBudgets>,
        metadata: Option<BTreeMap<String, String>>,
    }

    /// A message of a session, and overrides for the run that answers it.
    MessageBody {
        prompt: Option<String>,
        messages: Option<Vec<MessageItem>>,
        /// The run's id. The same message with the same id returns the same run; another message gets `run_exists`.
        run_id: Option<String>,
        tools: Option<Vec<Value>>,
        reasoning_level: Option<Value>,
        output_schema: Option<OutputSchemaBody>,
        loop_detection: Option<Value>,
        tool_budgets: Option<BTreeMap<String, Budget>>,
        metadata: Option<BTreeMap<String, String>>,
    }

    MessageItem {
        /// `system`, `user` or `assistant`; the last message that is not a system message must be a user message.
        role: String,
        content: String,
        attachments: Option<Vec<Value>>,
    }

    OutputSchemaBody {
        name: Option<String>,
        schema: Value,
        /// `best_effort` or `strict`.
        enforcement: Option<String>,
    }

    Budget {
        max_calls: u32,
    }

    RunBudgets {
        max_tool_turns: Option<u32>,
    }

    /// The outcome of one call: `result` or `error`.
    ToolResultBody {
        tool_use_id: String,
        result: Option<String>,
        error: Option<String>,
        files: Option<Vec<Value>>,
    }
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CancelBody {
    /// The reason, for the run's log; default: who cancelled it.
    pub(crate) reason: Option<String>,
    /// The person who acts, for the run's log.
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PauseBody {
    pub(crate) reason: String,
    /// The person that the key acts for, for the run's log; it is not verified.
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ResumeBody {
    pub(crate) notes: String,
    /// A user message for the model before it continues.
    pub(crate) message: Option<String>,
    /// The person that the key acts for, for the run's log; it is not verified.
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SteerBody {
    pub(crate) text: String,
    /// The person that the key acts for, for the run's log; it is not verified.
    pub(crate) actor: Option<String>,
}

/// `answer` for a question, `results` for calls that are executed outside of Windlass.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AnswerRequest {
    pub(crate) await_id: String,
    pub(crate) answer: Option<String>,
    /// Each with `toolCallId` and `result` or `error`.
    pub(crate) results: Option<Vec<Value>>,
    /// The person that the key acts for, for the run's log; it is not verified.
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ConfirmationRequest {
    pub(crate) await_id: String,
    pub(crate) approved: bool,
    /// The digest of the arguments that were shown; required for an approval.
    pub(crate) digest: Option<String>,
    /// The reason, for the run's log and, after a denial, for the model; at most 2,048 bytes.
    pub(crate) reason: Option<String>,
    /// With an approval: the call is executed with these arguments instead. Only if the await says `edit`.
    #[schema(value_type = Option<Object>)]
    pub(crate) arguments: Option<serde_json::Map<String, serde_json::Value>>,
    /// With an approval: later calls of the tool are not asked about. It can be revoked.
    #[schema(value_type = Option<GrantBody>)]
    pub(crate) grant: Option<serde_json::Value>,
    /// The person that the key acts for, for the run's log; it is not verified.
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GrantBody {
    /// Where it holds: `run`, `session` or `agent`.
    #[schema(value_type = String)]
    pub(crate) scope: GrantLevel,
    /// Which arguments it is for: `"any"`, `"same"`, or `{"at": [JSON pointers]}` for those with the same values there.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) arguments: GrantArguments,
    /// When it ends; absent: when it is revoked.
    #[schema(value_type = Option<u64>)]
    pub(crate) expires_in_ms: Option<Millis>,
}

impl From<GrantBody> for GrantRequest {
    fn from(GrantBody { scope, arguments, expires_in_ms }: GrantBody) -> Self {
        Self { scope, arguments, expires_in_ms }
    }
}

/// The approval rules of a run or of a session; they replace those that it had.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RulesBody {
    /// As in agent files, in camelCase.
    #[schema(value_type = Vec<Object>)]
    pub(crate) rules: serde_json::Value,
    /// The person that the key acts for; it is not verified.
    pub(crate) actor: Option<String>,
}
