//! Grants, and the approval rules of sessions and runs.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::{
    approval::{ApprovalLayer, ApprovalScope, Grant, OwnRules},
    ids::{GrantId, RunId, SessionId, ToolName, WorkspaceId},
};

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, json_text, millis, readable},
};
use crate::{
    Approvals, GrantFilter, Result,
    rows::{layer_of, owners_of, scope_columns},
};

#[async_trait]
impl Approvals for PostgresStore {
    async fn put_grant(&self, workspace: &WorkspaceId, grant: Grant) -> Result<()> {
        put_grant(&mut self.parts.autocommit().await?, workspace, &grant).await
    }

    async fn grants(&self, filter: GrantFilter) -> Result<Vec<Grant>> {
        grants(&mut self.parts.autocommit().await?, &filter).await
    }

    async fn revoke_grant(&self, workspace: &WorkspaceId, id: &GrantId) -> Result<Option<Grant>> {
        revoke_grant(&mut self.parts.autocommit().await?, workspace, id).await
    }

    async fn set_rules(&self, workspace: &WorkspaceId, owner: &ApprovalScope, rules: Option<OwnRules>) -> Result<()> {
        set_rules(&mut self.parts.autocommit().await?, workspace, owner, rules.as_ref()).await
    }

    async fn rules(&self, workspace: &WorkspaceId, owner: &ApprovalScope) -> Result<Option<OwnRules>> {
        rules(&mut self.parts.autocommit().await?, workspace, owner).await
    }

    async fn rules_for(
        &self,
        workspace: &WorkspaceId,
        run: &RunId,
        session: Option<&SessionId>,
    ) -> Result<Vec<ApprovalLayer>> {
        rules_for(&mut self.parts.autocommit().await?, workspace, &owners_of(run, session)).await
    }
}

async fn put_grant(sql: &mut Sql, workspace: &WorkspaceId, grant: &Grant) -> Result<()> {
    let (kind, id) = scope_columns(&grant.scope)?;
    sql.execute(
        "INSERT INTO approval_grants (workspace, id, tool, scope_kind, scope_id, body, granted_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        &[
            &workspace.as_str(),
            &grant.id.as_str(),
            &grant.tool.as_str(),
            &kind,
            &id,
            &json_text(grant)?,
            &millis(grant.granted_at),
        ],
    )
    .await?;
    Ok(())
}

async fn grants(sql: &mut Sql, filter: &GrantFilter) -> Result<Vec<Grant>> {
    let scopes = filter.scopes.iter().flatten().map(scope_columns).collect::<Result<Vec<_>>>()?;
    let (kinds, ids): (Vec<&str>, Vec<&str>) = scopes.into_iter().unzip();
    let rows = sql
        .query(
            "SELECT body, revoked_at, id FROM approval_grants
             WHERE workspace = $1 AND ($2::text IS NULL OR tool = $2) AND ($3 OR revoked_at IS NULL)
                 AND ($4 OR (scope_kind, scope_id) IN (SELECT * FROM unnest($5::text[], $6::text[])))
             ORDER BY granted_at DESC, id DESC LIMIT $7",
            &[
                &filter.workspace.as_str(),
                &filter.tool.as_ref().map(ToolName::as_str),
                &filter.revoked,
                &filter.scopes.is_none(),
                &kinds,
                &ids,
                &i64::from(filter.limit),
            ],
        )
        .await?;
    readable(&rows, ("approval_grants", "id"), grant_of)
}

async fn revoke_grant(sql: &mut Sql, workspace: &WorkspaceId, id: &GrantId) -> Result<Option<Grant>> {
    // A text that Postgres cannot hold is the id of no grant.
    if id.as_str().contains('\0') {
        return Ok(None);
    }
    let now = millis(sql.now);
    let row = sql
        .query_opt(
            "UPDATE approval_grants SET revoked_at = coalesce(revoked_at, $3) WHERE workspace = $1 AND id = $2
             RETURNING body, revoked_at",
            &[&workspace.as_str(), &id.as_str(), &now],
        )
        .await?;
    row.as_ref().map(grant_of).transpose()
}

fn grant_of(row: &Row) -> Result<Grant> {
    let grant: Grant = row.json("body")?;
    Ok(Grant { revoked: grant.revoked || row.time_opt("revoked_at")?.is_some(), ..grant })
}

async fn set_rules(
    sql: &mut Sql,
    workspace: &WorkspaceId,
    owner: &ApprovalScope,
    rules: Option<&OwnRules>,
) -> Result<()> {
    let (kind, id) = scope_columns(owner)?;
    let now = millis(sql.now);
    match rules {
        Some(rules) => {
            sql.execute(
                "INSERT INTO approval_rules (workspace, owner_kind, owner_id, body, set_at) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (workspace, owner_kind, owner_id)
                     DO UPDATE SET body = excluded.body, set_at = excluded.set_at",
                &[&workspace.as_str(), &kind, &id, &json_text(rules)?, &now],
            )
            .await?
        }
        None => {
            sql.execute(
                "DELETE FROM approval_rules WHERE workspace = $1 AND owner_kind = $2 AND owner_id = $3",
                &[&workspace.as_str(), &kind, &id],
            )
            .await?
        }
    };
    Ok(())
}

async fn rules(sql: &mut Sql, workspace: &WorkspaceId, owner: &ApprovalScope) -> Result<Option<OwnRules>> {
    let (kind, id) = scope_columns(owner)?;
    let row = sql
        .query_opt(
            "SELECT body FROM approval_rules WHERE workspace = $1 AND owner_kind = $2 AND owner_id = $3",
            &[&workspace.as_str(), &kind, &id],
        )
        .await?;
    row.map(|row| row.json("body")).transpose()
}

/// Rules that cannot be read fail: without them a call could run that they deny.
pub(super) async fn rules_for(
    sql: &mut Sql,
    workspace: &WorkspaceId,
    owners: &[(&'static str, String)],
) -> Result<Vec<ApprovalLayer>> {
    let (kinds, ids): (Vec<&str>, Vec<&str>) = owners.iter().map(|(kind, id)| (*kind, id.as_str())).unzip();
    let rows = sql
        .query(
            "SELECT owner_kind, body FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS owners (kind, id, place)
             JOIN approval_rules ON workspace = $1 AND owner_kind = kind AND owner_id = id
             ORDER BY place",
            &[&workspace.as_str(), &kinds, &ids],
        )
        .await?;
    rows.iter().map(|row| Ok(layer_of(&row.text("owner_kind")?, row.json("body")?))).collect()
}

/// These runs are deleted, and the grants and rules for them.
pub(super) async fn delete_of_runs(sql: &mut Sql, runs: &[String]) -> Result<()> {
    for (table, kind, id) in
        [("approval_grants", "scope_kind", "scope_id"), ("approval_rules", "owner_kind", "owner_id")]
    {
        let statement = format!(
            "DELETE FROM {table} USING runs
             WHERE runs.id = ANY($1) AND {kind} = 'run' AND {id} = runs.id AND {table}.workspace = runs.workspace"
        );
        sql.execute(&statement, &[&runs]).await?;
    }
    Ok(())
}

pub(super) async fn delete_of_session(sql: &mut Sql, workspace: &str, session: &str) -> Result<()> {
    for (table, kind, id) in
        [("approval_grants", "scope_kind", "scope_id"), ("approval_rules", "owner_kind", "owner_id")]
    {
        let statement = format!("DELETE FROM {table} WHERE workspace = $1 AND {kind} = 'session' AND {id} = $2");
        sql.execute(&statement, &[&workspace, &session]).await?;
    }
    Ok(())
}

/// Deletes rules whose owner was never created, or was deleted while they were written.
pub(super) async fn delete_ownerless(sql: &mut Sql, before: i64) -> Result<()> {
    sql.execute(
        "DELETE FROM approval_rules
         WHERE set_at < $1
             AND NOT EXISTS (SELECT 1 FROM runs
                             WHERE owner_kind = 'run' AND runs.id = owner_id AND runs.workspace = approval_rules.workspace)
             AND NOT EXISTS (SELECT 1 FROM sessions
                             WHERE owner_kind = 'session' AND sessions.id = owner_id
                                 AND sessions.workspace = approval_rules.workspace)",
        &[&before],
    )
    .await?;
    Ok(())
}
