//! Which installation this store is.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::ids::InstallationId;

use super::{SqliteStore, columns::Json};
use crate::{Installation, Installations, Result};

#[async_trait]
impl Installations for SqliteStore {
    async fn installation(&self) -> Result<Installation> {
        match self.parts.read(get).await? {
            Some(known) => Ok(known),
            None => self.parts.write(|tx| ensure(tx.sql)).await,
        }
    }

    async fn used_with(&self, namespace: &str, only: bool) -> Result<Installation> {
        let namespace = namespace.to_owned();
        self.parts.write(move |tx| used_with(tx.sql, &namespace, only)).await
    }
}

fn get(sql: &Connection) -> Result<Option<Installation>> {
    let found = sql
        .prepare_cached("SELECT id, namespaces FROM installation")?
        .query_row([], |row| {
            let Json(namespaces) = row.get(1)?;
            Ok(Installation { id: InstallationId::new(row.get::<_, String>(0)?), namespaces })
        })
        .optional()?;
    Ok(found)
}

/// The installation, made on first use.
fn ensure(sql: &Connection) -> Result<Installation> {
    if let Some(known) = get(sql)? {
        return Ok(known);
    }
    let first = Installation::first();
    save(sql, &first)?;
    Ok(first)
}

fn used_with(sql: &Connection, namespace: &str, only: bool) -> Result<Installation> {
    let mut installation = ensure(sql)?;
    if installation.add_namespace(namespace, only) {
        save(sql, &installation)?;
    }
    Ok(installation)
}

fn save(sql: &Connection, installation: &Installation) -> Result<()> {
    sql.prepare_cached(
        "INSERT INTO installation (only_row, id, namespaces) VALUES (1, ?1, ?2)
         ON CONFLICT DO UPDATE SET namespaces = excluded.namespaces",
    )?
    .execute(params![installation.id.as_str(), Json(&installation.namespaces)])?;
    Ok(())
}
