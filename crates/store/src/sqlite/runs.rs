//! The rows of runs: opening, reading and listing them.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use windlass_core::{
    envelope::TranscriptHead,
    ids::{AgentId, CallId, RunId, SessionId, WorkspaceId},
    message::{Message, Role},
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{
    access::Tx,
    blobs::Body,
    columns::{Hex, Json, Uint, Word},
    events::{self, Entry},
    sessions, transcript,
};
use crate::{NewRun, Result, RunFilter, RunPage, RunRow, StoreError};

const PREVIEW_CHARS: usize = 120;
const DEFAULT_PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;

/// A run on its way into the store.
pub(super) struct Opening {
    run: NewRun,
    messages: Vec<Body>,
    started: Entry,
    input_preview: String,
}

impl Opening {
    pub(super) fn of(run: NewRun) -> Result<Self> {
        let Some(known) = run.messages.len().checked_sub(run.new_messages) else {
            return Err(StoreError::InvalidArgument {
                argument: "new_messages",
                problem: format!("{} of {} messages cannot be new", run.new_messages, run.messages.len()),
            });
        };
        let first_question = run.messages[known..].iter().find(|message| message.role == Role::User);
        let input_preview = first_question.map(Message::plain_text).unwrap_or_default();
        Ok(Self {
            messages: Body::all_of(&run.messages)?,
            started: Entry::of(&run.started)?,
            input_preview: input_preview.chars().take(PREVIEW_CHARS).collect(),
            run,
        })
    }
}

pub(super) fn open(tx: &mut Tx<'_>, opening: &Opening) -> Result<TranscriptHead> {
    let run = &opening.run;
    if let Some(head) = opened_before(tx.sql, run)? {
        return Ok(head);
    }
    if let Some(session) = &run.session {
        sessions::ensure(tx, &run.workspace, session)?;
    }
    insert(tx, opening)?;
    let head = transcript::append(tx, &run.id, TranscriptHead::default(), &opening.messages)?.head;
    events::append(tx, &run.id, std::slice::from_ref(&opening.started))?;
    Ok(head)
}

pub(super) fn require(sql: &Connection, run: &RunId) -> Result<()> {
    let exists = sql.prepare_cached("SELECT 1 FROM runs WHERE id = ?1")?.exists([run.as_str()])?;
    exists.then_some(()).ok_or_else(|| StoreError::RunNotFound { run: run.clone() })
}

pub(super) fn get(sql: &Connection, run: &RunId) -> Result<Option<RunRow>> {
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?
        .query_row([run.as_str()], from_row)
        .optional()?;
    found.map(|row| with_children(sql, row)).transpose()
}

pub(super) fn list(sql: &Connection, filter: &RunFilter) -> Result<RunPage> {
    let limit = match filter.limit {
        0 => DEFAULT_PAGE,
        limit => limit.min(LARGEST_PAGE),
    } as usize;
    let wanted = [
        ("workspace = ?", filter.workspace.as_ref().map(WorkspaceId::as_str)),
        ("session = ?", filter.session.as_ref().map(SessionId::as_str)),
        ("agent_id = ?", filter.agent_id.as_ref().map(AgentId::as_str)),
        ("status = ?", filter.status.map(RunStatus::as_str)),
        ("parent = ?", filter.parent.as_ref().map(RunId::as_str)),
    ];
    let mut conditions = vec!["true"];
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    for (condition, value) in wanted.into_iter().filter_map(|(condition, value)| Some((condition, value?))) {
        conditions.push(condition);
        values.push(Box::new(value.to_owned()));
    }
    if let Some(cursor) = &filter.cursor {
        let (created_at, id) = parse_cursor(cursor)?;
        conditions.push("(created_at, id) < (?, ?)");
        values.push(Box::new(Uint::from(created_at)));
        values.push(Box::new(id.to_owned()));
    }
    // One more than wanted tells whether there is a next page.
    let mut rows: Vec<RunRow> = sql
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs WHERE {} ORDER BY created_at DESC, id DESC LIMIT {}",
            conditions.join(" AND "),
            limit + 1
        ))?
        .query_map(rusqlite::params_from_iter(values), from_row)?
        .collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(cursor_after);
    let runs = rows.into_iter().map(|row| with_children(sql, row)).collect::<Result<_>>()?;
    Ok(RunPage { runs, next })
}

fn cursor_after(row: &RunRow) -> String {
    format!("{}.{}", row.created_at.0, row.id)
}

fn parse_cursor(cursor: &str) -> Result<(Timestamp, &str)> {
    let parts = cursor.split_once('.').and_then(|(at, id)| Some((Timestamp(at.parse().ok()?), id)));
    parts.ok_or_else(|| StoreError::InvalidArgument {
        argument: "cursor",
        problem: format!("{cursor:?} did not come from a page; pass the previous page's `next` unchanged"),
    })
}

/// The head that an earlier call with this id returned.
fn opened_before(sql: &Connection, run: &NewRun) -> Result<Option<TranscriptHead>> {
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
    let Some((workspace, session, agent_id, Uint(opening_len), execution)) = stored else { return Ok(None) };
    let conflict = |field| Err(StoreError::RunExists { run: run.id.clone(), field });
    if workspace != run.workspace.as_str() {
        return conflict("workspace");
    }
    if session.as_deref() != run.session.as_ref().map(SessionId::as_str) {
        return conflict("session");
    }
    if agent_id != run.agent_id.as_str() {
        return conflict("agent");
    }
    if execution != run.execution {
        return conflict("workflow execution");
    }
    transcript::head_at(sql, &run.id, opening_len)
}

fn insert(tx: &Tx<'_>, opening: &Opening) -> Result<()> {
    let run = &opening.run;
    tx.sql
        .prepare_cached(
            "INSERT INTO runs (id, workspace, session, execution, agent_id, agent_digest, model_id, parent, parent_call, labels,
                 metadata, status, phase, input_preview, created_at, updated_at, opening_len, new_messages, head_len,
                 head_digest, last_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, ?16, ?17, 0, ?18, 0)",
        )?
        .execute(params![
            run.id.as_str(),
            run.workspace.as_str(),
            run.session.as_ref().map(SessionId::as_str),
            run.execution,
            run.agent_id.as_str(),
            Hex(run.agent_digest),
            run.model_id,
            run.parent.as_ref().map(RunId::as_str),
            run.parent_call.as_ref().map(CallId::as_str),
            Json(&run.labels),
            Json(&run.metadata),
            Word(RunStatus::Running),
            Word(Phase::Planning),
            opening.input_preview,
            Uint::from(tx.now),
            Uint(run.messages.len() as u64),
            Uint(run.new_messages as u64),
            Hex(TranscriptHead::default().digest),
        ])?;
    Ok(())
}

const COLUMNS: &str = "id, workspace, session, agent_id, agent_digest, model_id, parent, parent_call, labels, metadata, \
                       status, phase, input_preview, created_at, updated_at, closed_at, head_len, head_digest, last_seq";

/// A row without its children.
fn from_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let text = |column: &str| row.get::<_, String>(column);
    let optional = |column: &str| row.get::<_, Option<String>>(column);
    Ok(RunRow {
        id: RunId::new(text("id")?),
        workspace: WorkspaceId::new(text("workspace")?),
        session: optional("session")?.map(SessionId::new),
        agent_id: AgentId::new(text("agent_id")?),
        agent_digest: row.get::<_, Hex>("agent_digest")?.0,
        model_id: text("model_id")?,
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
        head: TranscriptHead { len: row.get::<_, Uint>("head_len")?.0, digest: row.get::<_, Hex>("head_digest")?.0 },
        last_seq: row.get::<_, Uint>("last_seq")?.0,
    })
}

fn with_children(sql: &Connection, mut row: RunRow) -> Result<RunRow> {
    row.children = sql
        .prepare_cached("SELECT id FROM runs WHERE parent = ?1 ORDER BY created_at, id")?
        .query_map([row.id.as_str()], |child| Ok(RunId::new(child.get::<_, String>(0)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(row)
}
