//! The conversation that successful runs leave in their session.

use windlass_core::{
    ids::{RunId, SessionId, WorkspaceId},
    message::{Message, Role},
};

use super::{
    access::Sql,
    blobs,
    columns::{Columns as _, int},
    sessions,
};
use crate::{MessagePage, Result};

pub(super) async fn messages(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<Vec<Message>> {
    let page = page(sql, workspace, session, None, None).await?;
    Ok(page.messages.into_iter().map(|(_, message)| message).collect())
}

pub(super) async fn page(
    sql: &mut Sql,
    workspace: &WorkspaceId,
    session: &SessionId,
    before: Option<u64>,
    last: Option<u32>,
) -> Result<MessagePage> {
    let total = sql
        .query_one(
            "SELECT count(*) FROM session_messages WHERE workspace = $1 AND session = $2",
            &[&workspace.as_str(), &session.as_str()],
        )
        .await?
        .uint("count")?;
    // Places count from 1, indices from 0.
    let end = before.map_or(total, |place| place.saturating_sub(1).min(total));
    let start = last.map_or(0, |last| end.saturating_sub(last.into()));
    let rows = sql
        .query(
            "SELECT digest, body, idx FROM session_messages JOIN blobs USING (digest)
             WHERE workspace = $1 AND session = $2 AND idx >= $3 AND idx < $4 ORDER BY idx",
            &[&workspace.as_str(), &session.as_str(), &int(start), &int(end)],
        )
        .await?;
    let placed = |row: &tokio_postgres::Row| Ok((row.uint("idx")? + 1, blobs::from_row(row)?.1));
    Ok(MessagePage { messages: rows.iter().map(placed).collect::<Result<_>>()?, total })
}

/// Adds what the run was asked and what it answered to its session, once.
pub(super) async fn close_turn(sql: &mut Sql, run: &RunId) -> Result<()> {
    let Some(turn) = turn_of(sql, run).await? else { return Ok(()) };
    let already = sql.query_opt("SELECT 1 FROM session_messages WHERE run_id = $1 LIMIT 1", &[&run.as_str()]).await?;
    if already.is_some() {
        return Ok(());
    }
    sessions::used(sql, &turn.workspace, &turn.session).await?;
    let answer = last_answer(sql, run, turn.opening_len).await?;
    sql.execute(
        "INSERT INTO session_messages (workspace, session, idx, digest, run_id)
         SELECT $1, $2, next.idx + row_number() OVER (ORDER BY added.idx) - 1, added.digest, $3
         FROM (SELECT coalesce(max(idx) + 1, 0) AS idx FROM session_messages WHERE workspace = $1 AND session = $2) AS next,
              (SELECT idx, digest FROM transcript WHERE run_id = $3 AND (idx >= $4 AND idx < $5 OR idx = $6)) AS added",
        &[
            &turn.workspace.as_str(),
            &turn.session.as_str(),
            &run.as_str(),
            &int(turn.first_new),
            &int(turn.opening_len),
            &answer.map(int),
        ],
    )
    .await?;
    Ok(())
}

/// Which session a run belongs to and which of its opening messages were new to it.
struct Turn {
    workspace: WorkspaceId,
    session: SessionId,
    first_new: u64,
    opening_len: u64,
}

async fn turn_of(sql: &mut Sql, run: &RunId) -> Result<Option<Turn>> {
    let row = sql
        .query_opt(
            "SELECT workspace, session, opening_len - new_messages AS first_new, opening_len FROM runs
             WHERE id = $1 AND session IS NOT NULL",
            &[&run.as_str()],
        )
        .await?;
    let turn = |row: &tokio_postgres::Row| {
        Ok(Turn {
            workspace: WorkspaceId::new(row.text("workspace")?),
            session: SessionId::new(row.text("session")?),
            first_new: row.uint("first_new")?,
            opening_len: row.uint("opening_len")?,
        })
    };
    row.as_ref().map(turn).transpose()
}

/// Where the last message of the assistant stands that the run itself added.
async fn last_answer(sql: &mut Sql, run: &RunId, opening_len: u64) -> Result<Option<u64>> {
    let mut end = i64::MAX;
    loop {
        // One by one from the end: it is nearly always the first.
        let row = sql
            .query_opt(
                "SELECT digest, body, idx FROM transcript JOIN blobs USING (digest)
                 WHERE run_id = $1 AND idx >= $2 AND idx < $3 ORDER BY idx DESC LIMIT 1",
                &[&run.as_str(), &int(opening_len), &end],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        let idx = row.uint("idx")?;
        if blobs::from_row::<Message>(&row)?.1.role == Role::Assistant {
            return Ok(Some(idx));
        }
        end = int(idx);
    }
}
