//! What an approver asks for with an approval: that later calls of the tool are not asked about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ApprovalScope, Grant, GrantShape};
use crate::{
    awaits::AwaitedCall,
    canonical::CanonicalJson,
    envelope::{Actor, Extra, RunInput},
    ids::{GrantId, RunId},
    limits::APPROVAL_TESTS,
    time::{Millis, Timestamp},
};

/// A grant as an answer asks for it. The run makes the [`Grant`] of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantRequest {
    pub scope: GrantLevel,
    #[serde(default)]
    pub arguments: GrantArguments,
    /// It holds until it is revoked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<Millis>,
}

/// Where it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantLevel {
    /// In the run that waits.
    Run,
    /// In every run of its session.
    Session,
    /// In every run of its agent.
    Agent,
}

/// Which arguments it is for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantArguments {
    #[default]
    Any,
    /// Exactly those of this call.
    Same,
    /// Those with the values of this call at these JSON pointers.
    At(Vec<String>),
}

impl GrantRequest {
    /// The grant for a call that waits in this run, or why it cannot be given. Its id is made from the call, so that a
    /// repeat is the same grant.
    pub fn grant(
        &self,
        call: &AwaitedCall,
        run: &RunInput,
        granted_by: &Actor,
        granted_at: Timestamp,
    ) -> Result<Grant, String> {
        let scope = match (self.scope, &run.session_id) {
            (GrantLevel::Run, _) => ApprovalScope::Run { id: run.run_id.clone() },
            (GrantLevel::Session, Some(session)) => ApprovalScope::Session { id: session.clone() },
            (GrantLevel::Session, None) => {
                return Err("the run has no session; grant for the run or for the agent".to_owned());
            }
            (GrantLevel::Agent, _) => ApprovalScope::Agent { id: run.agent_id.clone() },
        };
        let shape = match &self.arguments {
            GrantArguments::Any => GrantShape::AnyArguments,
            GrantArguments::Same => GrantShape::SameArguments { digest: call.digest },
            GrantArguments::At(pointers) => GrantShape::SameValues { values: values(call.args.as_ref(), pointers)? },
        };
        Ok(Grant {
            id: grant_id(&run.run_id, call),
            scope,
            tool: call.name.clone(),
            shape,
            granted_by: granted_by.clone(),
            granted_at,
            expires_at: self.expires_in_ms.map(|span| granted_at.after(span)),
            revoked: false,
            extra: Extra::new(),
        })
    }
}

/// A short id, because people type it. Two calls with the same id are not expected in one workspace.
fn grant_id(run: &RunId, call: &AwaitedCall) -> GrantId {
    let digest = CanonicalJson::from(serde_json::json!([run, call.tool_call_id])).digest().to_string();
    GrantId::new(format!("grant-{}", digest.chars().take(16).collect::<String>()))
}

fn values(args: Option<&CanonicalJson>, pointers: &[String]) -> Result<BTreeMap<String, serde_json::Value>, String> {
    if pointers.is_empty() || pointers.len() > APPROVAL_TESTS {
        return Err(format!("name 1 to {APPROVAL_TESTS} JSON pointers of values that stay the same"));
    }
    let Some(args) = args else {
        return Err(
            "the arguments are too large to pick values from; grant for the same or for any arguments".to_owned()
        );
    };
    let args = args.to_value();
    let value = |at: &String| match args.pointer(at) {
        Some(value) => Ok((at.clone(), value.clone())),
        None => Err(format!("the arguments have no value at {at:?}; write a JSON pointer, for example \"/to\"")),
    };
    pointers.iter().map(value).collect()
}
