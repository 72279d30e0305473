//! The state of runs outside of their workflow histories: sessions, runs, transcripts, events, blobs and journals.
//!
//! One trait per aggregate ([`Sessions`], [`Runs`], [`Events`], …), one that has them all ([`Store`]), and one adapter per
//! database. The store makes no decisions. It refuses only what would break its own guarantees: a gap in `seq`, an event
//! after the terminal one, a body that does not match its digest.

mod aggregates;
mod body;
mod call_row;
mod clock;
mod conditions;
mod ending;
mod entry;
mod error;
mod nul;
mod opening;
mod page;
pub mod postgres;
mod rows;
mod secrets;
pub mod sqlite;
mod sweep_counts;
mod sweeping;
#[cfg(any(test, feature = "test-support"))]
pub mod testing;
mod watch;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod suite;

pub use self::{
    aggregates::{
        Approvals, Blobs, CallJournal, Events, Housekeeping, Installations, Keys, ModelJournal, Notes, PushConfigs,
        Reservations, Runs, Secrets, Sessions, Store, Transcripts,
    },
    clock::{Clock, system_clock},
    error::{ErrorKind, StoreError},
    rows::{
        ApiKeyRow, CallClaim, CallSettlement, Compacted, FinishedCall, GrantFilter, Installation, JournalledPlan,
        KeyHash, MessagePage, NewApiKey, NewClaim, NewPushConfig, NewRun, NewSession, NewStart, NoteRow, OpenRun,
        PendingStart, PlanBegin, PlanBeginning, PlanCommit, PushConfigRow, PushTarget, RecordBatch, Reservation,
        ReservedRun, Retention, RunFilter, RunOrder, RunPage, SessionFilter, SessionPage, SessionRow, SessionStatus,
        Swept, TranscriptPage,
    },
    secrets::{
        ID_HEADER, KeyRing, MAX_NAMED, MAX_OWNED, MAX_VALUE, Reader, Rotated, SIGNATURE_HEADER, SealedSecret,
        SecretKey, SecretOwner, SecretRow, SigningKey, TIMESTAMP_HEADER, Vault,
    },
    watch::EventWatch,
};
pub use windlass_core::row::{Ending, RunRow};

pub type Result<T> = std::result::Result<T, StoreError>;
