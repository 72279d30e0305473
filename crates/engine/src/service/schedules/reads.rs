//! Descriptions, lists and counts of schedules, and the times that they match.

use std::sync::Arc;

use prost::Message;
use temporalio_protos::temporal::api::{
    common::v1::SearchAttributes,
    schedule::v1::ScheduleListEntry,
    workflowservice::v1::{
        CountSchedulesRequest, CountSchedulesResponse, DescribeScheduleRequest, DescribeScheduleResponse,
        ListScheduleMatchingTimesRequest, ListScheduleMatchingTimesResponse, ListSchedulesRequest,
        ListSchedulesResponse,
    },
};
use windlass_sqlite::DatabaseError;

use crate::{
    core::{Core, unavailable},
    persist,
    schedule::{Machine, ScheduleState, described, listed},
    schedules::ScheduleKey,
    service_error::ServiceError,
    time::{Nanos, moment, timestamp},
    visibility::{Query, index, parse_for_schedules},
};

/// Schedules of a page, unless the request asks for fewer.
const PAGE: usize = 1000;
const MATCHING_TIMES: usize = 1000;

/// The position of the last schedule of a page.
#[derive(Clone, PartialEq, Message)]
struct Token {
    #[prost(int64, tag = "1")]
    created: Nanos,
    #[prost(string, tag = "2")]
    schedule_id: String,
}

impl Core {
    pub(in crate::service) async fn describe_schedule(
        self: &Arc<Self>,
        request: DescribeScheduleRequest,
    ) -> Result<DescribeScheduleResponse, ServiceError> {
        let namespace_id = self.read_namespaces().named(&request.namespace)?.id.clone();
        let key = ScheduleKey::new(&request.namespace, &request.schedule_id);
        // A turn that has begun is waited for, because its client may have been answered.
        let _lock = self.schedules.lock(&key).await;
        let state = self.known_schedule(&key)?;
        if state.closed_at != 0 {
            return Err(ServiceError::not_found("schedule not found"));
        }
        let mut machine = Machine::new(state, &namespace_id, self.now());
        if self.look_at_runs(&mut machine)? {
            // The turn that records it comes after this request.
            self.schedules.wake(key);
        }
        let (schedule, info) = described(&machine);
        let state = machine.state;
        Ok(DescribeScheduleResponse {
            schedule: Some(schedule),
            info: Some(info),
            search_attributes: self.shown_attributes(&state),
            memo: state.memo.filter(|memo| !memo.fields.is_empty()),
            conflict_token: state.conflict_token.to_be_bytes().to_vec(),
        })
    }

    pub(in crate::service) async fn list_matching_times(
        self: &Arc<Self>,
        request: ListScheduleMatchingTimesRequest,
    ) -> Result<ListScheduleMatchingTimesResponse, ServiceError> {
        let namespace_id = self.read_namespaces().named(&request.namespace)?.id.clone();
        let key = ScheduleKey::new(&request.namespace, &request.schedule_id);
        let state = self.known_schedule(&key)?;
        let refused = |message: String| ServiceError::QueryFailed { message, failure: None };
        let (Some(start), Some(end)) = (&request.start_time, &request.end_time) else {
            return Err(refused("missing or invalid query".to_owned()));
        };
        let machine = Machine::new(state, &namespace_id, self.now());
        let Some(times) = machine.times() else {
            #[allow(deprecated, reason = "clients may still read invalid_schedule_error")]
            let problem = machine.state.info.map(|info| info.invalid_schedule_error).unwrap_or_default();
            return Err(refused(format!("invalid schedule: {problem}")));
        };
        let (start, end) = (moment(Some(start)), moment(Some(end)));
        let found = times.between(start, end, MATCHING_TIMES).map_err(|_| {
            refused(
                "the schedule calendar specification has too many exclusions. Please modify the specification."
                    .to_owned(),
            )
        })?;
        Ok(ListScheduleMatchingTimesResponse { start_time: found.into_iter().map(timestamp).collect() })
    }

    pub(in crate::service) async fn list_schedules(
        self: &Arc<Self>,
        request: ListSchedulesRequest,
    ) -> Result<ListSchedulesResponse, ServiceError> {
        let query = self.schedule_filter(&request.namespace, &request.query)?;
        let namespace_id = self.read_namespaces().named(&request.namespace)?.id.clone();
        let size = usize::try_from(request.maximum_page_size).ok().filter(|size| *size > 0).unwrap_or(PAGE).min(PAGE);
        let after = match request.next_page_token.as_slice() {
            [] => None,
            token => Some(Token::decode(token).map_err(|_| ServiceError::invalid("invalid NextPageToken"))?),
        };
        let namespace = request.namespace;
        let read = self.database.read(move |sql| {
            let after = after.as_ref().map(|token| (token.created, token.schedule_id.as_str()));
            // One more than requested shows whether there is another page.
            Ok::<_, DatabaseError>(persist::schedules(sql, &namespace, &query, after, size + 1)?)
        });
        let mut found = read.await.map_err(|error| unavailable(&error))?;
        let more = found.len() > size;
        found.truncate(size);
        let next = found.last().filter(|_| more).map(|last| Token {
            created: last.info.as_ref().map_or(0, |info| moment(info.create_time.as_ref())),
            schedule_id: last.schedule_id.clone(),
        });
        let now = self.now();
        let entry = |state: ScheduleState| {
            let machine = Machine::new(state, &namespace_id, now);
            let info = listed(&machine);
            let state = machine.state;
            ScheduleListEntry {
                search_attributes: self.shown_attributes(&state),
                schedule_id: state.schedule_id,
                memo: Some(state.memo.unwrap_or_default()),
                info: Some(info),
            }
        };
        Ok(ListSchedulesResponse {
            schedules: found.into_iter().map(entry).collect(),
            next_page_token: next.map(|token| token.encode_to_vec()).unwrap_or_default(),
        })
    }

    pub(in crate::service) async fn count_schedules(
        self: &Arc<Self>,
        request: CountSchedulesRequest,
    ) -> Result<CountSchedulesResponse, ServiceError> {
        let query = self.schedule_filter(&request.namespace, &request.query)?;
        let namespace = request.namespace;
        let read =
            self.database.read(move |sql| Ok::<_, DatabaseError>(persist::count_schedules(sql, &namespace, &query)?));
        let count = read.await.map_err(|error| unavailable(&error))?;
        Ok(CountSchedulesResponse { count, ..CountSchedulesResponse::default() })
    }

    fn schedule_filter(&self, namespace: &str, query: &str) -> Result<Query, ServiceError> {
        let namespaces = self.read_namespaces();
        namespaces.named(namespace)?;
        parse_for_schedules(query, &namespaces.attributes(namespace))
    }

    fn shown_attributes(&self, state: &ScheduleState) -> Option<SearchAttributes> {
        let known = self.read_namespaces().attributes(&state.namespace);
        let shown = index::index_kept(state.search_attributes.as_ref()?, &known).shown;
        (!shown.indexed_fields.is_empty()).then_some(shown)
    }
}
