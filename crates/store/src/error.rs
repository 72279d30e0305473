//! Errors of the store.
//!
//! Programs look at [`StoreError::kind`] and [`StoreError::retryable`], documentation and logs at [`StoreError::code`],
//! people at the message. Codes are stable: they are never reused and never change their meaning.

use windlass_core::{
    envelope::TranscriptHead,
    ids::{CallId, RunId, SessionId, WorkspaceId},
};

/// Kinds of errors, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// What the call is about does not exist.
    NotFound,
    /// Something else is already stored under this id or in this place.
    Conflict,
    /// The run has its terminal event.
    Closed,
    /// The session has ended.
    Ended,
    /// What is stored is not what was written.
    Corrupt,
    /// The database cannot be reached or is too busy.
    Unavailable,
    /// The call itself is not valid.
    Invalid,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("run {run} is not in the store; open it before writing to it")]
    RunNotFound { run: RunId },

    #[error("run {run} already exists with another {field}; start the new run under an id of its own")]
    RunExists { run: RunId, field: &'static str },

    #[error(
        "the transcript of run {run} does not continue from head {}/{}: {problem}; read the run's head and start from there",
        head.len, head.digest.short()
    )]
    TranscriptConflict { run: RunId, head: TranscriptHead, problem: &'static str },

    #[error("run {run} already has an event with key {key:?} and another body; give the new event a key of its own")]
    EventConflict { run: RunId, key: String },

    #[error("call {call} of run {run} is already finished with another outcome; claim it again to read that outcome")]
    CallConflict { run: RunId, call: CallId },

    #[error("turn {turn} of run {run} was given up; stop working on it")]
    TurnGivenUp { run: RunId, turn: u32 },

    #[error("run {run} is closed, event {key:?} comes after its terminal event; stop writing to this run")]
    RunClosed { run: RunId, key: String },

    #[error("session {session} of workspace {workspace} has ended; start a new session")]
    SessionEnded { workspace: WorkspaceId, session: SessionId },

    #[error(
        "session {session} of workspace {workspace} already exists with another {field}; create it under another id"
    )]
    SessionExists { workspace: WorkspaceId, session: SessionId, field: &'static str },

    #[error("key {id} already exists; make a new one")]
    KeyExists { id: String },

    #[error(
        "secret {name} of workspace {workspace} is encrypted with key {key_id}, which is not among the keys of this process \
         ({known}); add that key, or set the secret again"
    )]
    SecretKeyMissing { workspace: WorkspaceId, name: String, key_id: String, known: String },

    #[error("workspace {workspace} has no secret {name} that this run may read; set it with `windlass secrets set`")]
    SecretNotFound { workspace: WorkspaceId, name: String },

    #[error("a {owner} has at most {limit} secrets, and workspace {workspace} would exceed that; remove one first")]
    SecretLimit { workspace: WorkspaceId, owner: &'static str, limit: u64 },

    #[error(
        "secret {name} of workspace {workspace} was split from an earlier request and has another value; send the first \
         request again, or use a new id"
    )]
    SecretExists { workspace: WorkspaceId, name: String },

    #[error(
        "the keys for secrets in {place} cannot be used: {problem}; give keys of 32 bytes in base64 or hexadecimal"
    )]
    SecretKeys { place: String, problem: String },

    #[error("stored data is damaged: {detail}; `windlass doctor --deep` lists all of it, a backup has it whole")]
    Corrupt { detail: String },

    #[error(
        "the database file is damaged: {detail}; stop what uses it, look with `windlass doctor --deep`, and restore a backup \
         with `windlass store restore FILE`"
    )]
    Damaged { detail: String },

    #[error("{path} cannot be used as a database: {problem}")]
    NotADatabase { path: String, problem: String },

    #[error("the store could not {action}: {detail}; try again, a repeat is safe")]
    Unavailable { action: &'static str, detail: String },

    #[error(
        "{database} was written by a newer build: its schema is version {found} and this build knows up to {supported}; upgrade this build"
    )]
    NewerSchema { database: String, found: usize, supported: usize },

    #[error(
        "{database} is used by another process, and its tables can only be upgraded by one that is alone; stop all processes \
         that use it, then start again"
    )]
    InUse { database: String },

    #[error("{argument} is not valid: {problem}")]
    InvalidArgument { argument: &'static str, problem: String },

    #[error("call {call} of run {run} is finished without having been claimed; claim it before executing it")]
    CallNotClaimed { run: RunId, call: CallId },

    #[error("the database refused a statement: {detail}; its schema was changed by hand or this build has a defect")]
    Refused { detail: String },
}

impl StoreError {
    /// Whether it is about one row, or one body, that is not what was written: others may be read.
    pub(crate) fn is_about_a_row(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }

    /// A digest that refers to nothing.
    pub(crate) fn missing_body(argument: &'static str) -> Self {
        Self::InvalidArgument { argument, problem: "no such body is stored; store it first".to_owned() }
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::RunNotFound { .. } | Self::SecretNotFound { .. } => ErrorKind::NotFound,
            Self::RunExists { .. }
            | Self::SessionExists { .. }
            | Self::KeyExists { .. }
            | Self::SecretExists { .. }
            | Self::TranscriptConflict { .. }
            | Self::EventConflict { .. }
            | Self::CallConflict { .. } => ErrorKind::Conflict,
            Self::RunClosed { .. } | Self::TurnGivenUp { .. } => ErrorKind::Closed,
            Self::SessionEnded { .. } => ErrorKind::Ended,
            Self::Corrupt { .. } | Self::Damaged { .. } | Self::NotADatabase { .. } => ErrorKind::Corrupt,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::NewerSchema { .. }
            | Self::InUse { .. }
            | Self::InvalidArgument { .. }
            | Self::CallNotClaimed { .. }
            | Self::SecretKeyMissing { .. }
            | Self::SecretLimit { .. }
            | Self::SecretKeys { .. }
            | Self::Refused { .. } => ErrorKind::Invalid,
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::RunNotFound { .. } => "STO0001",
            Self::RunExists { .. } => "STO0002",
            Self::TranscriptConflict { .. } => "STO0003",
            Self::EventConflict { .. } => "STO0004",
            Self::CallConflict { .. } => "STO0005",
            Self::RunClosed { .. } => "STO0006",
            Self::SessionEnded { .. } => "STO0007",
            Self::Corrupt { .. } => "STO0008",
            Self::Unavailable { .. } => "STO0009",
            Self::NewerSchema { .. } => "STO0010",
            Self::InvalidArgument { .. } => "STO0011",
            Self::CallNotClaimed { .. } => "STO0012",
            Self::Refused { .. } => "STO0013",
            Self::TurnGivenUp { .. } => "STO0014",
            Self::SessionExists { .. } => "STO0015",
            Self::KeyExists { .. } => "STO0016",
            Self::Damaged { .. } => "STO0017",
            Self::NotADatabase { .. } => "STO0018",
            Self::SecretKeyMissing { .. } => "STO0023",
            Self::SecretNotFound { .. } => "STO0024",
            Self::SecretLimit { .. } => "STO0025",
            Self::SecretExists { .. } => "STO0026",
            Self::SecretKeys { .. } => "STO0027",
            Self::InUse { .. } => "STO0028",
        }
    }

    /// Whether the same call may succeed later. Every write is idempotent, so a repeat is always safe.
    pub fn retryable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }
}
