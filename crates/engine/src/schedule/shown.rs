//! A schedule as replies show it.

use temporalio_protos::temporal::api::schedule::v1::{Schedule, ScheduleInfo, ScheduleListInfo};

use super::{machine::Machine, spec};

const FUTURE_TIMES: usize = 10;
const LISTED_FUTURE_TIMES: usize = 5;
const LISTED_RECENT_ACTIONS: usize = 5;
const LISTED_OF_A_SPEC: usize = 10;

/// Schedule and info of a description.
pub(crate) fn described(machine: &Machine) -> (Schedule, ScheduleInfo) {
    let mut schedule = machine.state.schedule.clone().unwrap_or_default();
    if let Some(spec) = &mut schedule.spec {
        spec::with_defaults(spec);
    }
    let info = ScheduleInfo {
        future_action_times: machine.future_times(FUTURE_TIMES),
        buffer_size: i64::try_from(machine.state.buffer.len()).unwrap_or(i64::MAX),
        ..machine.state.info.clone().unwrap_or_default()
    };
    (schedule, info)
}

/// The short form for lists.
pub(crate) fn listed(machine: &Machine) -> ScheduleListInfo {
    let schedule = machine.state.schedule.clone().unwrap_or_default();
    let mut spec = schedule.spec.unwrap_or_default();
    spec.timezone_data.clear();
    spec.structured_calendar.truncate(LISTED_OF_A_SPEC);
    spec.exclude_structured_calendar.truncate(LISTED_OF_A_SPEC);
    spec.interval.truncate(LISTED_OF_A_SPEC);
    spec::with_defaults(&mut spec);
    let state = schedule.state.unwrap_or_default();
    let recent = machine.state.info.as_ref().map(|info| info.recent_actions.as_slice()).unwrap_or_default();
    ScheduleListInfo {
        spec: Some(spec),
        workflow_type: machine.action().and_then(|action| action.workflow_type.clone()),
        notes: state.notes,
        paused: state.paused,
        recent_actions: recent[recent.len().saturating_sub(LISTED_RECENT_ACTIONS)..].to_vec(),
        future_action_times: machine.future_times(LISTED_FUTURE_TIMES),
        ..ScheduleListInfo::default()
    }
}
