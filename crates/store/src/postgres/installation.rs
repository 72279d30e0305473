//! Which installation this store is.

use async_trait::async_trait;
use windlass_core::ids::InstallationId;

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, json_text},
};
use crate::{Installation, Installations, Result};

#[async_trait]
impl Installations for PostgresStore {
    async fn installation(&self) -> Result<Installation> {
        if let Some(known) = get(&mut self.parts.autocommit().await?).await? {
            return Ok(known);
        }
        let mut sql = self.parts.begin().await?;
        let outcome = ensure(&mut sql).await;
        sql.end(outcome).await
    }

    async fn used_with(&self, namespace: &str, only: bool) -> Result<Installation> {
        let mut sql = self.parts.begin().await?;
        let outcome = used_with(&mut sql, namespace, only).await;
        sql.end(outcome).await
    }
}

async fn get(sql: &mut Sql) -> Result<Option<Installation>> {
    find(sql, "SELECT id, namespaces FROM installation").await
}

/// The installation, made on first use. Of several processes that do so at once one is first.
async fn ensure(sql: &mut Sql) -> Result<Installation> {
    let first = Installation::first();
    sql.execute(
        "INSERT INTO installation (only_row, id, namespaces) VALUES (true, $1, $2) ON CONFLICT DO NOTHING",
        &[&first.id.as_str(), &json_text(&first.namespaces)?],
    )
    .await?;
    Ok(find(sql, "SELECT id, namespaces FROM installation FOR UPDATE").await?.unwrap_or(first))
}

async fn used_with(sql: &mut Sql, namespace: &str, only: bool) -> Result<Installation> {
    let mut installation = ensure(sql).await?;
    if installation.add_namespace(namespace, only) {
        sql.execute("UPDATE installation SET namespaces = $1", &[&json_text(&installation.namespaces)?]).await?;
    }
    Ok(installation)
}

async fn find(sql: &mut Sql, statement: &str) -> Result<Option<Installation>> {
    let row = sql.query_opt(statement, &[]).await?;
    row.map(|row| Ok(Installation { id: InstallationId::new(row.text("id")?), namespaces: row.json("namespaces")? }))
        .transpose()
}
