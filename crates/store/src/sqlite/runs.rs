//! The rows of runs: opening, reading and listing them.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_core::{
    envelope::TranscriptHead,
    ids::{AgentId, CallId, RunId, SessionId, WorkspaceId},
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{
    SqliteStore,
    access::Tx,
    blobs,
    columns::{Bytes, Json, Uint, Word, readable},
    conversation, events,
    filter::Filter,
    record::{self, Batch},
    reservations, sessions,
    state::RunState,
    transcript,
};
use crate::{
    NewRun, OpenRun, RecordBatch, Result, RunFilter, RunPage, RunRow, Runs, StoreError, body::Body, entry::Entry,
    opening::Opening, page::Cursor,
};

#[async_trait]
impl Runs for SqliteStore {
    async fn open_run(&self, run: NewRun) -> Result<TranscriptHead> {
        let opening = Opening::of(run)?;
        self.parts.write_relaxed(move |tx| open(tx, &opening)).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        let run = run.clone();
        self.parts.read(move |sql| get(sql, &run)).await
    }

    async fn final_text(&self, run: &RunId) -> Result<Option<String>> {
        let run = run.clone();
        self.parts.read(move |sql| events::final_text(sql, &run)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<RunPage> {
        self.parts.read(move |sql| list(sql, &filter)).await
    }

    async fn open_runs(&self, after: Option<OpenRun>, limit: u32) -> Result<Vec<OpenRun>> {
        self.parts.read(move |sql| open_after(sql, after.as_ref(), limit)).await
    }

    async fn record(&self, batch: RecordBatch) -> Result<TranscriptHead> {
        let batch = Batch {
            messages: Body::all_of(&batch.messages)?,
            results: blobs::results_in(&batch.messages),
            events: Entry::all_of(&batch.events)?,
            run: batch.run,
            head: batch.head,
            status: batch.status,
            phase: batch.phase,
            closes_session_turn: batch.closes_session_turn,
        };
        self.parts.write_relaxed(move |tx| record::record(tx, &batch)).await
    }
}

fn open(tx: &mut Tx<'_>, opening: &Opening) -> Result<TranscriptHead> {
    let run = &opening.run;
    let known = known(tx.sql, run)?;
    if let Known::Opened { opening_len } = known {
        let known = RunState::of(tx.sql, &run.id)?;
        let head = transcript::head_of(tx.sql, known.number, opening_len)?;
        return head.ok_or_else(|| StoreError::Corrupt { detail: format!("run {} has lost messages", run.id) });
    }
    let prefix = match &run.session {
        Some(session) if run.continues_session => conversation::head(tx.sql, &run.workspace, session)?,
        _ => TranscriptHead::default(),
    };
    if let Known::Reserved = known {
        complete(tx, opening, prefix)?;
        reservations::forget_start(tx.sql, &run.id)?;
    } else {
        if let Some(session) = &run.session {
            sessions::run_started(tx, &run.workspace, session, &run.agent_id, &opening.input_preview)?;
        }
        insert(tx, opening, prefix)?;
    }
    let mut state = RunState::of(tx.sql, &run.id)?;
    let head = transcript::append(tx.sql, &mut state, prefix, &opening.messages, &[])?.head;
    events::append(tx, &mut state, std::slice::from_ref(&opening.started), &[])?;
    state.save(tx)?;
    Ok(head)
}

pub(super) fn get(sql: &Connection, run: &RunId) -> Result<Option<RunRow>> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?
        .query_row([run.as_str()], from_row)
        .optional()?;
    found.map(|row| with_children(sql, row)).transpose()
}

fn list(sql: &Connection, wanted: &RunFilter) -> Result<RunPage> {
    let order = wanted.order;
    let mut filter = Filter::of(wanted.conditions());
    let total = wanted.total.then(|| filter.count(sql, "runs")).transpose()?;
    if let Some(cursor) = &wanted.cursor {
        filter.comes_after(order.column(), &Cursor::parse(cursor)?);
    }
    let page = filter.page(sql, ("runs", COLUMNS, order.column()), (wanted.limit, 0), from_row)?;
    let (rows, next, unreadable) = page.end(|row| order.cursor(row));
    let runs = rows.into_iter().map(|row| with_children(sql, row)).collect::<Result<_>>()?;
    Ok(RunPage { runs, next, unreadable, total })
}

fn open_after(sql: &Connection, after: Option<&OpenRun>, limit: u32) -> Result<Vec<OpenRun>> {
    let (at, id) = after.map_or((Uint(0), ""), |after| (Uint::from(after.created_at), after.id.as_str()));
    let mut open = sql.prepare_cached(
        "SELECT created_at, id FROM runs WHERE closed_at IS NULL AND created_at >= ?1 AND (created_at, id) > (?1, ?2)
         ORDER BY created_at, id LIMIT ?3",
    )?;
    let open = open.query_map(params![at, id, limit], |row| {
        Ok(OpenRun { created_at: row.get::<_, Uint>(0)?.into(), id: RunId::new(row.get::<_, String>(1)?) })
    })?;
    Ok(open.collect::<rusqlite::Result<_>>()?)
}

/// What the store knows of a run that is to be opened.
enum Known {
    No,
    Reserved,
    Opened { opening_len: u64 },
}

fn known(sql: &Connection, run: &NewRun) -> Result<Known> {
    let stored = sql
        .prepare_cached("SELECT workspace, session, agent_id, opening_len, execution FROM runs WHERE id = ?1")?
        .query_row([run.id.as_str()], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, Option<String>>(1)?,
                row.get::<_, String>(2)?,
                row.get(3)?,
                row.get::<_, String>(4)?,
            ))
        })
        .optional()?;
    let Some((workspace, session, agent_id, Uint(opening_len), execution)) = stored else { return Ok(Known::No) };
    let conflict = |field| Err(StoreError::RunExists { run: run.id.clone(), field });
    if workspace != run.workspace.as_str() {
        return conflict("workspace");
    }
    if session.as_deref() != run.session.as_ref().map(SessionId::as_str) {
        return conflict("session");
    }
    if execution.is_empty() {
        return Ok(Known::Reserved);
    }
    if agent_id != run.agent_id.as_str() {
        return conflict("agent");
    }
    if execution != run.execution {
        return conflict("workflow execution");
    }
    Ok(Known::Opened { opening_len })
}

fn insert(tx: &Tx<'_>, opening: &Opening, prefix: TranscriptHead) -> Result<()> {
    let run = &opening.run;
    tx.sql
        .prepare_cached(
            "INSERT INTO runs (id, workspace, session, execution, agent_id, agent_digest, model_id, parent, parent_call, labels,
                 metadata, status, phase, input_preview, created_at, updated_at, opening_len, new_messages, head_len,
                 head_digest, prefix_len, last_seq, root_agent)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, ?16, ?17, ?18, ?19, ?18, 0,
                 CASE WHEN ?8 IS NULL THEN ?5
                      ELSE coalesce((SELECT above.root_agent FROM runs AS above WHERE above.id = ?8), '') END)",
        )?
        .execute(params![
            run.id.as_str(),
            run.workspace.as_str(),
            run.session.as_ref().map(SessionId::as_str),
            run.execution,
            run.agent_id.as_str(),
            Bytes(run.agent_digest),
            run.model_id,
            run.parent.as_ref().map(RunId::as_str),
            run.parent_call.as_ref().map(CallId::as_str),
            Json(&run.labels),
            Json(&run.metadata),
            Word(RunStatus::Running),
            Word(Phase::Planning),
            opening.input_preview,
            Uint::from(tx.now),
            Uint(opening.len(prefix.len)),
            Uint(opening.len(0)),
            Uint(prefix.len),
            Bytes(prefix.digest),
        ])?;
    Ok(())
}

/// A reserved run begins. If it has messages already, they are its transcript, and appending after
/// `prefix` tells whether they agree with the conversation.
fn complete(tx: &Tx<'_>, opening: &Opening, prefix: TranscriptHead) -> Result<()> {
    let run = &opening.run;
    tx.sql
        .prepare_cached(
            "UPDATE runs SET execution = ?2, agent_id = ?3, agent_digest = ?4, model_id = ?5, parent = ?6,
                 parent_call = ?7, labels = ?8, status = ?9, updated_at = ?10, opening_len = ?11, new_messages = ?12, root_agent = ?3,
                 prefix_len = CASE WHEN head_len = 0 THEN ?13 ELSE 0 END,
                 head_len = CASE WHEN head_len = 0 THEN ?13 ELSE head_len END,
                 head_digest = CASE WHEN head_len = 0 THEN ?14 ELSE head_digest END
             WHERE id = ?1",
        )?
        .execute(params![
            run.id.as_str(),
            run.execution,
            run.agent_id.as_str(),
            Bytes(run.agent_digest),
            run.model_id,
            run.parent.as_ref().map(RunId::as_str),
            run.parent_call.as_ref().map(CallId::as_str),
            Json(&run.labels),
            Word(RunStatus::Running),
            Uint::from(tx.now),
            Uint(opening.len(prefix.len)),
            Uint(opening.len(0)),
            Uint(prefix.len),
            Bytes(prefix.digest),
        ])?;
    Ok(())
}

pub(super) const COLUMNS: &str = "id, workspace, session, agent_id, root_agent, nullif(agent_digest, x'') AS agent_digest, model_id, name, \
                       (SELECT digest FROM blobs WHERE number = spec) AS spec, \
                       parent, parent_call, labels, metadata, status, phase, input_preview, created_at, updated_at, \
                       closed_at, head_len, head_digest, last_seq, ending";

/// A row without its children.
pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let text = |column: &str| row.get::<_, String>(column);
    let optional = |column: &str| row.get::<_, Option<String>>(column);
    Ok(RunRow {
        id: RunId::new(text("id")?),
        workspace: WorkspaceId::new(text("workspace")?),
        session: optional("session")?.map(SessionId::new),
        agent_id: AgentId::new(text("agent_id")?),
        root_agent: AgentId::new(text("root_agent")?),
        agent_digest: row.get::<_, Option<Bytes>>("agent_digest")?.map(|Bytes(digest)| digest),
        model_id: text("model_id")?,
        name: optional("name")?,
        spec: row.get::<_, Option<Bytes>>("spec")?.map(|Bytes(digest)| digest),
        parent: optional("parent")?.map(RunId::new),
        parent_call: optional("parent_call")?.map(CallId::new),
        children: Vec::new(),
        labels: row.get::<_, Json<_>>("labels")?.0,
        metadata: row.get::<_, Json<_>>("metadata")?.0,
        status: row.get::<_, Word<_>>("status")?.0,
        phase: row.get::<_, Word<_>>("phase")?.0,
        input_preview: text("input_preview")?,
        created_at: row.get::<_, Uint>("created_at")?.into(),
        updated_at: row.get::<_, Uint>("updated_at")?.into(),
        closed_at: row.get::<_, Option<Uint>>("closed_at")?.map(Timestamp::from),
        head: TranscriptHead { len: row.get::<_, Uint>("head_len")?.0, digest: row.get::<_, Bytes>("head_digest")?.0 },
        last_seq: row.get::<_, Uint>("last_seq")?.0,
        ending: row.get::<_, Option<Json<_>>>("ending")?.map(|Json(ending)| ending),
    })
}

fn with_children(sql: &Connection, mut row: RunRow) -> Result<RunRow> {
    let mut children = sql.prepare_cached("SELECT id FROM runs WHERE parent = ?1 ORDER BY created_at, id")?;
    let children = children.query([row.id.as_str()])?;
    row.children = readable(children, ("runs", 0), |child| Ok(RunId::new(child.get::<_, String>(0)?)))?;
    Ok(row)
}
