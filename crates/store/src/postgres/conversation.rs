//! The conversation that successful runs leave in their session.

use windlass_core::{
    envelope::TranscriptHead,
    ids::{RunId, SessionId, WorkspaceId},
    message::{Message, Role},
};

use super::{
    access::Sql,
    blobs,
    columns::{Columns as _, hex, int},
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

/// The head of the conversation. Costs the same for a long one as for a short one, unless a build that stores no chain has
/// added messages: their chain is filled in first.
pub(super) async fn head(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<TranscriptHead> {
    let last = sql
        .query_opt(
            "SELECT idx, chain FROM session_messages WHERE workspace = $1 AND session = $2 ORDER BY idx DESC LIMIT 1",
            &[&workspace.as_str(), &session.as_str()],
        )
        .await?;
    let Some(last) = last else { return Ok(TranscriptHead::default()) };
    match last.digest_opt("chain")? {
        Some(digest) => Ok(TranscriptHead { len: last.uint("idx")? + 1, digest }),
        None => fill_chain(sql, workspace, session).await,
    }
}

/// Messages without a chain come after all that have one. Two transactions that do this at once write the same.
async fn fill_chain(sql: &mut Sql, workspace: &WorkspaceId, session: &SessionId) -> Result<TranscriptHead> {
    let last = sql
        .query_opt(
            "SELECT idx, chain FROM session_messages
             WHERE workspace = $1 AND session = $2 AND chain IS NOT NULL ORDER BY idx DESC LIMIT 1",
            &[&workspace.as_str(), &session.as_str()],
        )
        .await?;
    let mut head = match last {
        Some(last) => TranscriptHead { len: last.uint("idx")? + 1, digest: last.digest("chain")? },
        None => TranscriptHead::default(),
    };
    let rows = sql
        .query(
            "SELECT digest FROM session_messages WHERE workspace = $1 AND session = $2 AND idx >= $3 ORDER BY idx",
            &[&workspace.as_str(), &session.as_str(), &int(head.len)],
        )
        .await?;
    for row in &rows {
        let next = head.push(row.digest("digest")?);
        sql.execute(
            "UPDATE session_messages SET chain = $4 WHERE workspace = $1 AND session = $2 AND idx = $3",
            &[&workspace.as_str(), &session.as_str(), &int(head.len), &hex(next.digest)],
        )
        .await?;
        head = next;
    }
    Ok(head)
}

/// Adds what the run was asked and what it answered to its session, once.
pub(super) async fn close_turn(sql: &mut Sql, run: &RunId) -> Result<()> {
    let Some(turn) = turn_of(sql, run).await? else { return Ok(()) };
    let already = sql.query_opt("SELECT 1 FROM session_messages WHERE run_id = $1 LIMIT 1", &[&run.as_str()]).await?;
    if already.is_some() {
        return Ok(());
    }
    sessions::touch(sql, &turn.workspace, &turn.session).await?;
    let answer = last_answer(sql, run, turn.opening_len).await?;
    let rows = sql
        .query(
            "SELECT digest FROM run_messages WHERE run_id = $1 AND (idx >= $2 AND idx < $3 OR idx = $4) ORDER BY idx",
            &[&run.as_str(), &int(turn.first_new), &int(turn.opening_len), &answer.map(int)],
        )
        .await?;
    let mut head = head(sql, &turn.workspace, &turn.session).await?;
    let (mut indices, mut digests, mut chains) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let digest = row.digest("digest")?;
        indices.push(int(head.len));
        head = head.push(digest);
        digests.push(hex(digest));
        chains.push(hex(head.digest));
    }
    sql.execute(
        "INSERT INTO session_messages (workspace, session, run_id, idx, digest, chain)
         SELECT $1, $2, $3, * FROM unnest($4::BIGINT[], $5::TEXT[], $6::TEXT[])",
        &[&turn.workspace.as_str(), &turn.session.as_str(), &run.as_str(), &indices, &digests, &chains],
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
                "SELECT digest, body, idx FROM run_messages JOIN blobs USING (digest)
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
