//! The behaviour of every adapter, tested through the traits alone.
//!
//! An adapter's tests call `store_suite!` with a function that opens a [`Bench`]; every case becomes a test of its own.

pub(crate) mod approvals;
pub(crate) mod blobs;
pub(crate) mod calls;
pub(crate) mod damage;
pub(crate) mod endings;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod installation;
pub(crate) mod keys;
pub(crate) mod notes;
pub(crate) mod plans;
pub(crate) mod prefix;
pub(crate) mod push;
pub(crate) mod record;
pub(crate) mod reservations;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod session_rows;
pub(crate) mod sessions;
pub(crate) mod sweep;
pub(crate) mod transcript;
pub(crate) mod watch;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures_util::future::BoxFuture;
use windlass_core::{
    canonical::Digest,
    envelope::{Extra, Labels, TokenUsage, TranscriptHead},
    event::{Event, EventBody, NewEvent},
    ids::{AgentId, RunId, SessionId, WorkspaceId},
    message::Message,
    run::{Phase, RunStatus},
    time::{Millis, Timestamp},
};

use crate::{NewRun, PlanBegin, PlanBeginning, RecordBatch, Result, Store, StoreError};

/// An empty store with a clock that stands still until a test moves it.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    /// Opens the same database once more, as another process would.
    pub(crate) another: Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>,
    pub(crate) clock: Arc<AtomicU64>,
}

impl Bench {
    pub(crate) fn at(&self, millis: u64) -> Timestamp {
        self.clock.store(millis, Ordering::SeqCst);
        Timestamp(millis)
    }

    /// Opens a run that asks "hello".
    pub(crate) async fn open(&self, run: &RunId) -> TranscriptHead {
        self.store.open_run(new_run(run, &["hello"])).await.unwrap()
    }

    /// Appends messages as the beginning of some turn does.
    pub(crate) async fn append(
        &self,
        run: &RunId,
        head: TranscriptHead,
        messages: Vec<Message>,
    ) -> Result<TranscriptHead> {
        let begin = PlanBegin {
            run: run.clone(),
            workspace: workspace(),
            session: None,
            turn: u32::MAX,
            head,
            messages,
            events: Vec::new(),
        };
        match self.store.begin_plan(begin).await? {
            PlanBeginning::Ask { head, .. } => Ok(head),
            PlanBeginning::Journalled(plan) => panic!("no response was journalled for that turn: {plan:?}"),
        }
    }

    pub(crate) async fn log(&self, run: &RunId) -> Vec<Event> {
        self.store.events(run, 0, u32::MAX).await.unwrap()
    }

    pub(crate) async fn keys(&self, run: &RunId) -> Vec<(u64, String)> {
        self.log(run).await.into_iter().map(|event| (event.seq, event.key)).collect()
    }
}

pub(crate) fn run_id() -> RunId {
    RunId::new("run-1")
}

pub(crate) fn workspace() -> WorkspaceId {
    WorkspaceId::new("acme")
}

pub(crate) fn session() -> SessionId {
    SessionId::new("chat")
}

/// A run outside any session whose messages are all new.
pub(crate) fn new_run(run: &RunId, questions: &[&str]) -> NewRun {
    NewRun {
        id: run.clone(),
        workspace: workspace(),
        session: None,
        execution: "execution-1".to_owned(),
        agent_id: AgentId::new("clerk"),
        agent_digest: Digest::of_bytes(b"clerk"),
        model_id: "script:demo".to_owned(),
        parent: None,
        parent_call: None,
        labels: Labels::from([("team".to_owned(), "ops".to_owned())]),
        metadata: Extra::new(),
        continues_session: false,
        messages: questions.iter().copied().map(Message::user).collect(),
        started: started(),
    }
}

pub(crate) fn started() -> NewEvent {
    let body = EventBody::Started {
        agent_id: AgentId::new("clerk"),
        workspace: workspace(),
        session_id: None,
        parent_run_id: None,
        parent_tool_call_id: None,
        model_id: "script:demo".to_owned(),
        labels: Labels::new(),
        metadata: Extra::new(),
        started_by: None,
    };
    NewEvent::new("started", body)
}

pub(crate) fn note(key: &str, text: &str) -> NewEvent {
    NewEvent::new(key, EventBody::PlannerNote { text: text.to_owned() })
}

pub(crate) fn cancelled(key: &str) -> NewEvent {
    let body = EventBody::Cancelled {
        reason: "enough".to_owned(),
        turns: 1,
        tool_calls: 0,
        active_ms: Millis(5),
        usage: TokenUsage::default(),
        model: None,
        structured_output: None,
    };
    NewEvent::new(key, body)
}

/// A record that changes nothing but what a test adds to it.
pub(crate) fn batch(run: &RunId, head: TranscriptHead) -> RecordBatch {
    RecordBatch {
        run: run.clone(),
        head,
        messages: Vec::new(),
        events: Vec::new(),
        status: RunStatus::Running,
        phase: Phase::Planning,
        closes_session_turn: false,
    }
}

/// The head of a transcript with exactly these messages.
pub(crate) fn head_of(messages: &[Message]) -> TranscriptHead {
    messages.iter().fold(TranscriptHead::default(), |head, message| head.push(Digest::of(message).unwrap()))
}

pub(crate) fn code<T: std::fmt::Debug>(refused: Result<T>) -> &'static str {
    StoreError::code(&refused.unwrap_err())
}

/// Makes a test of every case for one adapter.
macro_rules! store_suite {
    ($bench:path) => {
        store_suite! { $bench;
            approvals: a_grant_is_kept_once_listed_and_revoked,
                a_run_follows_the_rules_of_its_session_and_of_its_ancestors,
                a_sweep_deletes_grants_and_rules_with_their_owner;
            blobs: a_body_is_addressed_by_its_canonical_bytes;
            calls: a_claim_is_granted_once_per_dispatch,
                a_settlement_fences_off_what_never_began,
                an_executor_that_went_silent_leaves_an_unknown_outcome,
                overtaken_attempts_change_nothing,
                finishing_stores_the_output_its_body_and_its_event,
                finishing_twice_is_finishing_once,
                a_late_outcome_is_no_event,
                a_body_must_match_its_reference,
                a_call_needs_a_claim_and_a_run;
            endings: a_row_keeps_what_its_terminal_event_says,
                an_error_keeps_the_partial_text,
                a_run_that_goes_on_has_no_ending;
            events: seq_counts_new_keys_from_one,
                the_first_text_of_a_workflows_event_stays,
                a_known_key_with_another_body_is_refused_whole,
                nothing_new_follows_the_terminal_event,
                a_batch_cannot_go_on_after_its_terminal_event,
                concurrent_writers_leave_no_gap,
                the_row_shows_what_the_log_said_last,
                a_log_is_read_in_pages,
                a_log_needs_a_run;
            files: a_file_is_kept_while_a_message_of_a_session_refers_to_it,
                a_shared_file_goes_with_the_last_message_that_refers_to_it,
                a_file_that_was_put_again_outlives_the_message_that_referred_to_it,
                messages_that_were_put_keep_their_files_too,
                what_only_looks_like_a_reference_keeps_nothing,
                a_reference_to_a_file_that_is_missing_is_stored_like_any_other;
            installation: an_installation_is_decided_once_for_all_processes,
                a_store_notes_which_namespaces_it_is_used_with;
            keys: a_key_is_found_by_its_id,
                an_id_is_given_once,
                a_workspace_sees_and_revokes_its_own_keys,
                a_use_is_noted_once_a_minute;
            notes: a_note_is_replaced_by_its_key,
                a_search_wants_every_word;
            plans: a_turn_begins_with_what_happened_since_the_last_one,
                a_response_is_journalled_with_its_message_and_events,
                a_repeat_returns_the_first_response,
                a_turn_that_was_given_up_takes_no_late_response,
                a_turn_that_has_its_response_is_settled_with_it,
                a_refused_response_leaves_nothing_behind;
            prefix: a_run_continues_the_conversation_as_it_was_when_it_opened,
                heads_inside_the_conversation_are_heads_of_the_run,
                a_conversation_is_kept_while_a_run_refers_to_it,
                a_reserved_run_with_messages_cannot_begin_with_a_conversation,
                only_a_run_of_a_session_can_continue_one;
            push: a_config_is_put_listed_and_deleted,
                a_config_that_was_given_up_is_open_again_when_it_is_put_again,
                a_run_has_a_limited_number_of_configs,
                a_secret_goes_with_its_config,
                a_sweep_deletes_configs_with_their_run,
                a_run_that_is_withdrawn_leaves_no_config,
                all_processes_sign_with_the_key_that_was_made_first;
            record: a_batch_changes_transcript_log_and_row_together,
                a_terminal_event_closes_the_run,
                a_late_repeat_does_not_turn_the_row_back,
                a_refused_batch_leaves_nothing_behind;
            reservations: a_reserved_run_is_queued_until_it_is_opened,
                what_was_reserved_stands,
                reserving_again_changes_nothing,
                a_start_is_kept_until_its_run_is_opened,
                the_same_request_finds_the_first_start,
                of_reservations_at_once_one_counts,
                a_run_that_was_not_opened_is_ended_once,
                a_reservation_must_fit_its_run,
                a_run_that_never_began_is_withdrawn,
                a_run_that_something_happened_to_is_not_withdrawn,
                a_run_can_fail_before_it_begins,
                a_run_of_another_workspace_is_not_found;
            runs: a_run_opens_with_its_messages_and_its_started_event,
                opening_again_returns_the_first_head,
                opening_again_as_something_else_is_refused,
                the_preview_is_the_start_of_the_first_new_question,
                a_child_is_listed_with_its_parent, a_child_is_its_roots_agents_and_so_is_a_session_its_first_runs,
                lists_go_from_new_to_old_in_pages,
                a_list_of_changes_goes_from_the_last_one_back,
                filters_narrow_a_list_together,
                a_filter_looks_into_metadata,
                a_list_can_be_counted,
                open_runs_are_walked_from_old_to_new,
                a_cursor_must_come_from_a_page;
            secrets: a_secret_is_set_listed_read_and_removed,
                names_and_values_have_limits,
                a_split_secret_is_read_by_its_owner_alone,
                a_split_secret_keeps_its_first_value,
                a_sweep_deletes_split_secrets_with_their_owner,
                rotation_encrypts_everything_with_the_current_key,
                a_rotation_does_not_undo_a_set,
                a_ciphertext_belongs_to_its_row;
            session_rows: a_session_is_created_and_ended,
                creating_again_must_mean_the_same,
                the_first_question_is_the_summary,
                the_most_recently_used_come_first,
                a_list_goes_on_from_an_offset_or_a_cursor,
                lists_are_filtered_and_counted,
                an_ended_session_takes_no_more_runs;
            sessions: a_session_is_created_once,
                a_successful_run_leaves_question_and_answer,
                the_next_run_starts_from_the_conversation,
                closing_the_turn_twice_adds_once,
                runs_that_end_otherwise_leave_nothing,
                a_conversation_is_read_in_pages;
            sweep: old_runs_go_with_everything_they_had,
                what_is_still_referred_to_stays,
                a_conversation_outlives_its_runs,
                a_body_outlives_the_oldest_open_run_that_may_need_it,
                a_sweep_is_bounded,
                reservations_are_forgotten_too;
            transcript: messages_are_appended_after_the_head,
                a_repeat_at_an_older_head_is_harmless,
                a_longer_repeat_adds_what_is_missing,
                another_message_in_the_same_place_is_refused,
                a_head_that_is_not_the_transcripts_is_refused,
                an_older_head_reads_the_older_transcript,
                a_transcript_is_read_in_pages;
            watch: an_append_wakes_the_watcher,
                a_watcher_that_waits_is_woken,
                other_writes_of_a_run_wake_too,
                writes_of_another_process_wake_too;
        }
    };
    ($bench:path; $($concern:ident: $($case:ident),+;)+) => {
        $(
            mod $concern {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        $crate::suite::$concern::$case($bench().await).await;
                    }
                )+
            }
        )+
    };
}
pub(crate) use store_suite;
