//! Grants, and the approval rules of runs and sessions.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{
    approval::{ApprovalRule, ApprovalScope, CallApproval, Grant, OwnRules},
    envelope::{Actor, Extra},
    ids::{CallId, GrantId, RunId, ToolName},
    time::Timestamp,
};

use crate::{Client, Error};

impl Client {
    /// Grants of the workspace, the newest first; revoked ones if they are wanted.
    pub async fn grants(&self, tool: Option<&ToolName>, revoked: bool, limit: u32) -> Result<Vec<Grant>, Error> {
        #[derive(Deserialize)]
        struct Grants {
            grants: Vec<Grant>,
        }
        let mut query = vec![("limit", limit.to_string())];
        query.extend(tool.map(|tool| ("tool", tool.to_string())));
        query.extend(revoked.then(|| ("revoked", "1".to_owned())));
        let Grants { grants } = self.http().get(&["approval-grants"], &query).await?;
        Ok(grants)
    }

    /// Revokes a grant: later calls are asked about again.
    pub async fn revoke_grant(&self, grant: &GrantId) -> Result<Grant, Error> {
        self.http().post(&["approval-grants", grant.as_str(), "revoke"], &json!({})).await
    }

    /// The approval rules of a run or a session.
    pub async fn rules(&self, owner: &ApprovalScope) -> Result<Option<OwnRules>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Rules {
            rules: Vec<ApprovalRule>,
            set_by: Option<Actor>,
            #[serde(default)]
            set_at: Timestamp,
            may_relax: bool,
        }
        let Rules { rules, set_by, set_at, may_relax } = self.http().get(&path(owner)?, &[]).await?;
        Ok(set_by.map(|set_by| OwnRules { rules, set_by, set_at, may_relax, extra: Extra::new() }))
    }

    /// Replaces the approval rules of a run or a session. They apply to the next calls that the model asks for.
    pub async fn set_rules(&self, owner: &ApprovalScope, rules: &[ApprovalRule]) -> Result<(), Error> {
        let _: Value = self.http().put(&path(owner)?, &self.signed(json!({"rules": rules}))).await?;
        Ok(())
    }

    /// Removes the approval rules of a run or a session.
    pub async fn remove_rules(&self, owner: &ApprovalScope) -> Result<(), Error> {
        let _: Value = self.http().delete(&path(owner)?).await?;
        Ok(())
    }

    /// What was decided about a call, and what the rules and grants say of it now.
    pub async fn explain_call(&self, run: &RunId, call: &CallId) -> Result<CallApproval, Error> {
        self.http().get(&["agent-runs", run.as_str(), "calls", call.as_str(), "approval"], &[]).await
    }
}

fn path(owner: &ApprovalScope) -> Result<[&str; 3], Error> {
    match owner {
        ApprovalScope::Run { id } => Ok(["agent-runs", id.as_str(), "approvals"]),
        ApprovalScope::Session { id } => Ok(["agent-sessions", id.as_str(), "approvals"]),
        ApprovalScope::Agent { .. } | ApprovalScope::Unknown => {
            Err(Error::Unusable { what: "only runs and sessions have approval rules of their own".to_owned() })
        }
    }
}
