//! Grants, and the approval rules of sessions and runs.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_core::{
    approval::{ApprovalLayer, ApprovalScope, Grant, OwnRules},
    ids::{GrantId, RunId, SessionId, ToolName, WorkspaceId},
    time::Timestamp,
};

use super::{
    SqliteStore,
    access::Tx,
    columns::{Json, Uint, readable},
};
use crate::{
    Approvals, GrantFilter, Result,
    rows::{layer_of, owners_of, scope_columns},
};

#[async_trait]
impl Approvals for SqliteStore {
    async fn put_grant(&self, workspace: &WorkspaceId, grant: Grant) -> Result<()> {
        let workspace = workspace.clone();
        self.parts.write(move |tx| put_grant(tx, &workspace, &grant)).await
    }

    async fn grants(&self, filter: GrantFilter) -> Result<Vec<Grant>> {
        self.parts.read(move |sql| grants(sql, &filter)).await
    }

    async fn revoke_grant(&self, workspace: &WorkspaceId, id: &GrantId) -> Result<Option<Grant>> {
        let (workspace, id) = (workspace.clone(), id.clone());
        self.parts.write(move |tx| revoke_grant(tx, &workspace, &id)).await
    }

    async fn set_rules(&self, workspace: &WorkspaceId, owner: &ApprovalScope, rules: Option<OwnRules>) -> Result<()> {
        let (workspace, owner) = (workspace.clone(), owner.clone());
        self.parts.write(move |tx| set_rules(tx, &workspace, &owner, rules.as_ref())).await
    }

    async fn rules(&self, workspace: &WorkspaceId, owner: &ApprovalScope) -> Result<Option<OwnRules>> {
        let (workspace, owner) = (workspace.clone(), owner.clone());
        self.parts.read(move |sql| rules(sql, &workspace, &owner)).await
    }

    async fn rules_for(
        &self,
        workspace: &WorkspaceId,
        run: &RunId,
        session: Option<&SessionId>,
    ) -> Result<Vec<ApprovalLayer>> {
        let (workspace, owners) = (workspace.clone(), owners_of(run, session));
        self.parts.read(move |sql| rules_for(sql, &workspace, &owners)).await
    }
}

fn put_grant(tx: &Tx<'_>, workspace: &WorkspaceId, grant: &Grant) -> Result<()> {
    let (kind, id) = scope_columns(&grant.scope)?;
    tx.sql
        .prepare_cached(
            "INSERT INTO approval_grants (workspace, id, tool, scope_kind, scope_id, body, granted_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            workspace.as_str(),
            grant.id.as_str(),
            grant.tool.as_str(),
            kind,
            id,
            Json(grant),
            Uint::from(grant.granted_at)
        ])?;
    Ok(())
}

fn grants(sql: &Connection, filter: &GrantFilter) -> Result<Vec<Grant>> {
    let scopes = match &filter.scopes {
        Some(scopes) => Some(scopes.iter().map(scope_columns).collect::<Result<Vec<_>>>()?),
        None => None,
    };
    let mut rows = sql.prepare_cached(
        "SELECT body, revoked_at, id FROM approval_grants
         WHERE workspace = ?1 AND (?2 IS NULL OR tool = ?2) AND (?3 OR revoked_at IS NULL)
             AND (?4 IS NULL OR (scope_kind, scope_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?4)))
         ORDER BY granted_at DESC, id DESC LIMIT ?5",
    )?;
    let rows = rows.query(params![
        filter.workspace.as_str(),
        filter.tool.as_ref().map(ToolName::as_str),
        filter.revoked,
        scopes.map(Json),
        filter.limit
    ])?;
    readable(rows, ("approval_grants", 2), grant_of)
}

fn revoke_grant(tx: &Tx<'_>, workspace: &WorkspaceId, id: &GrantId) -> Result<Option<Grant>> {
    tx.sql
        .prepare_cached(
            "UPDATE approval_grants SET revoked_at = coalesce(revoked_at, ?3) WHERE workspace = ?1 AND id = ?2",
        )?
        .execute(params![workspace.as_str(), id.as_str(), Uint::from(tx.now)])?;
    let found = tx
        .sql
        .prepare_cached("SELECT body, revoked_at, id FROM approval_grants WHERE workspace = ?1 AND id = ?2")?
        .query_row([workspace.as_str(), id.as_str()], grant_of)
        .optional()?;
    Ok(found)
}

pub(super) fn grant_of(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let Json(grant) = row.get::<_, Json<Grant>>("body")?;
    Ok(Grant { revoked: grant.revoked || row.get::<_, Option<Uint>>("revoked_at")?.is_some(), ..grant })
}

fn set_rules(tx: &Tx<'_>, workspace: &WorkspaceId, owner: &ApprovalScope, rules: Option<&OwnRules>) -> Result<()> {
    let (kind, id) = scope_columns(owner)?;
    match rules {
        Some(rules) => tx
            .sql
            .prepare_cached(
                "INSERT INTO approval_rules (workspace, owner_kind, owner_id, body, set_at) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (workspace, owner_kind, owner_id)
                     DO UPDATE SET body = excluded.body, set_at = excluded.set_at",
            )?
            .execute(params![workspace.as_str(), kind, id, Json(rules), Uint::from(tx.now)])?,
        None => tx
            .sql
            .prepare_cached("DELETE FROM approval_rules WHERE workspace = ?1 AND owner_kind = ?2 AND owner_id = ?3")?
            .execute([workspace.as_str(), kind, id])?,
    };
    Ok(())
}

fn rules(sql: &Connection, workspace: &WorkspaceId, owner: &ApprovalScope) -> Result<Option<OwnRules>> {
    let (kind, id) = scope_columns(owner)?;
    let found = sql
        .prepare_cached("SELECT body FROM approval_rules WHERE workspace = ?1 AND owner_kind = ?2 AND owner_id = ?3")?
        .query_row([workspace.as_str(), kind, id], |row| row.get::<_, Json<_>>(0))
        .optional()?;
    Ok(found.map(|Json(rules)| rules))
}

/// Rules that cannot be read fail: without them a call could run that they deny.
pub(super) fn rules_for(
    sql: &Connection,
    workspace: &WorkspaceId,
    owners: &[(&'static str, String)],
) -> Result<Vec<ApprovalLayer>> {
    let mut layers = Vec::new();
    // Almost always there are none at all.
    if !sql.prepare_cached("SELECT 1 FROM approval_rules LIMIT 1")?.exists([])? {
        return Ok(layers);
    }
    let mut found = sql
        .prepare_cached("SELECT body FROM approval_rules WHERE workspace = ?1 AND owner_kind = ?2 AND owner_id = ?3")?;
    for (kind, id) in owners {
        let rules = found.query_row([workspace.as_str(), kind, id], |row| row.get::<_, Json<_>>(0)).optional()?;
        layers.extend(rules.map(|Json(rules)| layer_of(kind, rules)));
    }
    Ok(layers)
}

pub(super) fn delete_of_run(sql: &Connection, run: &str) -> Result<()> {
    for (table, kind, id) in
        [("approval_grants", "scope_kind", "scope_id"), ("approval_rules", "owner_kind", "owner_id")]
    {
        sql.prepare_cached(&format!(
            "DELETE FROM {table}
             WHERE {kind} = 'run' AND {id} = ?1 AND workspace = (SELECT workspace FROM runs WHERE id = ?1)"
        ))?
        .execute([run])?;
    }
    Ok(())
}

pub(super) fn delete_of_session(sql: &Connection, workspace: &str, session: &str) -> Result<()> {
    for (table, kind, id) in
        [("approval_grants", "scope_kind", "scope_id"), ("approval_rules", "owner_kind", "owner_id")]
    {
        sql.prepare_cached(&format!("DELETE FROM {table} WHERE workspace = ?1 AND {kind} = 'session' AND {id} = ?2"))?
            .execute([workspace, session])?;
    }
    Ok(())
}

/// Deletes rules whose owner was never created, or was deleted while they were written.
pub(super) fn delete_ownerless(sql: &Connection, before: Timestamp) -> Result<()> {
    sql.prepare_cached(
        "DELETE FROM approval_rules
         WHERE set_at < ?1
             AND NOT EXISTS (SELECT 1 FROM runs
                             WHERE owner_kind = 'run' AND runs.id = owner_id AND runs.workspace = approval_rules.workspace)
             AND NOT EXISTS (SELECT 1 FROM sessions
                             WHERE owner_kind = 'session' AND sessions.id = owner_id
                                 AND sessions.workspace = approval_rules.workspace)",
    )?
    .execute([Uint::from(before)])?;
    Ok(())
}
