//! Notes of a workspace, by key.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use windlass_core::ids::WorkspaceId;

use super::{
    SqliteStore,
    access::Tx,
    columns::{Json, Uint, readable},
};
use crate::{NoteRow, Notes, Result, nul};

#[async_trait]
impl Notes for SqliteStore {
    async fn put_note(&self, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow> {
        nul::note(key, text)?;
        let (workspace, key, text) = (workspace.clone(), key.to_owned(), text.to_owned());
        self.parts.write(move |tx| put(tx, &workspace, &key, &text)).await
    }

    async fn notes(&self, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>> {
        let (workspace, query) = (workspace.clone(), query.to_owned());
        self.parts.read(move |sql| search(sql, &workspace, &query, limit)).await
    }
}

fn put(tx: &Tx<'_>, workspace: &WorkspaceId, key: &str, text: &str) -> Result<NoteRow> {
    let folded = format!("{key}\n{text}").to_lowercase();
    tx.sql
        .prepare_cached(
            "INSERT INTO notes (workspace, key, text, folded, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (workspace, key)
             DO UPDATE SET text = excluded.text, folded = excluded.folded, updated_at = excluded.updated_at",
        )?
        .execute(params![workspace.as_str(), key, text, folded, Uint::from(tx.now)])?;
    Ok(NoteRow { key: key.to_owned(), text: text.to_owned(), updated_at: tx.now })
}

/// The notes that contain every word of the query in their key or text, the newest first.
fn search(sql: &Connection, workspace: &WorkspaceId, query: &str, limit: u32) -> Result<Vec<NoteRow>> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    let mut notes = sql.prepare_cached(
        "SELECT key, text, updated_at FROM notes
         WHERE workspace = ?1 AND NOT EXISTS (SELECT 1 FROM json_each(?2) AS word WHERE instr(folded, word.value) = 0)
         ORDER BY updated_at DESC, key LIMIT ?3",
    )?;
    let notes = notes.query(params![workspace.as_str(), Json(words), limit])?;
    readable(notes, ("notes", 0), |row| {
        Ok(NoteRow { key: row.get(0)?, text: row.get(1)?, updated_at: row.get::<_, Uint>(2)?.into() })
    })
}
