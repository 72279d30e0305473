//! Notes of a workspace, by key.

use async_trait::async_trait;
use windlass_core::ids::WorkspaceId;

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, millis, readable},
};
use crate::{NoteRow, Notes, Result, nul};

#[async_trait]
impl Notes for PostgresStore {
    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow> {
        nul::note(key, text)?;
        put(&mut self.parts.autocommit().await?, workspace, key, text).await
    }

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>> {
        search(&mut self.parts.autocommit().await?, workspace, query, limit).await
    }
}

async fn put(sql: &mut Sql, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow> {
    let (folded, updated_at) = (format!("{key}\n{text}").to_lowercase(), sql.now);
    sql.execute(
        "INSERT INTO notes (workspace, key, text, folded, updated_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (workspace, key)
         DO UPDATE SET text = excluded.text, folded = excluded.folded, updated_at = excluded.updated_at",
        &[&workspace.as_str(), &key, &text, &folded, &millis(updated_at)],
    )
    .await?;
    Ok(NoteRow { key: key.to_owned(), text: text.to_owned(), updated_at })
}

/// The notes that contain every word of the query in their key or text, the newest first.
async fn search(sql: &mut Sql, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>> {
    // A text that Postgres cannot hold is in no note either.
    if query.contains('\0') {
        return Ok(Vec::new());
    }
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    let rows = sql
        .query(
            "SELECT key, text, updated_at FROM notes
             WHERE workspace = $1 AND NOT EXISTS (SELECT 1 FROM unnest($2::TEXT[]) AS word WHERE strpos(folded, word) = 0)
             ORDER BY updated_at DESC, key LIMIT $3",
            &[&workspace.as_str(), &words, &i64::from(limit)],
        )
        .await?;
    let note = |row: &tokio_postgres::Row| {
        Ok(NoteRow { key: row.text("key")?, text: row.text("text")?, updated_at: row.time("updated_at")? })
    };
    readable(&rows, ("notes", "key"), note)
}
