//! Creating, changing and deleting schedules.

use std::sync::Arc;

use prost::Message as _;
use temporalio_protos::temporal::api::workflowservice::v1::{
    CreateScheduleRequest, CreateScheduleResponse, DeleteScheduleRequest, DeleteScheduleResponse, PatchScheduleRequest,
    PatchScheduleResponse, UpdateScheduleRequest, UpdateScheduleResponse,
};

use super::turn::Asked;
use crate::{
    core::Core,
    schedule::{Change, Machine, ScheduleState},
    schedules::ScheduleKey,
    service_error::ServiceError,
    time::timestamp,
};

const LONGEST_NOTES: usize = 1000;

impl Core {
    pub(in crate::service) async fn create_schedule(
        self: &Arc<Self>,
        request: CreateScheduleRequest,
    ) -> Result<CreateScheduleResponse, ServiceError> {
        let namespace_id = self.read_namespaces().named(&request.namespace)?.id.clone();
        self.check_schedule_id(&request.schedule_id)?;
        if request.request_id.is_empty() {
            return Err(ServiceError::invalid("RequestId is not set on request."));
        }
        self.check_request_id(&request.request_id)?;
        let mut schedule = request.schedule.unwrap_or_default();
        Self::canonicalize(&mut schedule)?;
        self.check_action(&request.namespace, &mut schedule)?;
        let mut search_attributes = request.search_attributes;
        if let Some(attributes) = &mut search_attributes {
            self.read_namespaces().check(&request.namespace, attributes)?;
        }
        self.check_size(schedule.encoded_len() + request.memo.as_ref().map_or(0, |memo| memo.encoded_len()))?;
        let key = ScheduleKey::new(&request.namespace, &request.schedule_id);
        let state = ScheduleState {
            namespace: request.namespace,
            schedule_id: request.schedule_id,
            create_request_id: request.request_id,
            memo: request.memo,
            search_attributes,
            schedule: Some(schedule),
            ..ScheduleState::default()
        };
        let machine = Machine::create(state, &namespace_id, self.now());
        let token = machine.state.conflict_token;
        self.ask_schedule(key, Asked::Create { machine: Box::new(machine), patch: request.initial_patch }).await?;
        Ok(CreateScheduleResponse { conflict_token: token.to_be_bytes().to_vec() })
    }

    pub(in crate::service) async fn update_schedule(
        self: &Arc<Self>,
        request: UpdateScheduleRequest,
    ) -> Result<UpdateScheduleResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        self.check_request_id(&request.request_id)?;
        let mut schedule = request.schedule.unwrap_or_default();
        self.check_action(&request.namespace, &mut schedule)?;
        Self::canonicalize(&mut schedule)?;
        let mut search_attributes = request.search_attributes;
        if let Some(attributes) = &mut search_attributes {
            self.read_namespaces().check(&request.namespace, attributes)?;
        }
        self.check_payloads(&mut schedule, request.memo.as_ref())?;
        if request.memo.is_some() {
            let problem = "memo updates are not supported on workflow-backed schedules";
            return Err(ServiceError::FailedPrecondition(problem.to_owned()));
        }
        self.check_size(schedule.encoded_len())?;
        let token: Option<[u8; 8]> = request.conflict_token.get(..8).and_then(|token| token.try_into().ok());
        let change = Change::Update {
            schedule: Box::new(schedule),
            search_attributes,
            conflict_token: token.map(i64::from_be_bytes).unwrap_or_default(),
        };
        let key = ScheduleKey::new(&request.namespace, &request.schedule_id);
        self.ask_schedule(key, Asked::Change { change: Box::new(change), request_id: request.request_id }).await?;
        Ok(UpdateScheduleResponse {})
    }

    pub(in crate::service) async fn patch_schedule(
        self: &Arc<Self>,
        request: PatchScheduleRequest,
    ) -> Result<PatchScheduleResponse, ServiceError> {
        let Some(mut patch) = request.patch else {
            return Err(ServiceError::invalid("Patch is not set on request."));
        };
        self.read_namespaces().named(&request.namespace)?;
        self.check_request_id(&request.request_id)?;
        if patch.pause.len() > LONGEST_NOTES || patch.unpause.len() > LONGEST_NOTES {
            return Err(ServiceError::invalid("Schedule notes exceeds limit."));
        }
        if let Some(trigger) = &mut patch.trigger_immediately {
            trigger.scheduled_time.get_or_insert_with(|| timestamp(self.now()));
        }
        self.check_size(patch.encoded_len())?;
        let key = ScheduleKey::new(&request.namespace, &request.schedule_id);
        let change = Box::new(Change::Patch(patch));
        self.ask_schedule(key, Asked::Change { change, request_id: request.request_id }).await?;
        Ok(PatchScheduleResponse {})
    }

    pub(in crate::service) async fn delete_schedule(
        self: &Arc<Self>,
        request: DeleteScheduleRequest,
    ) -> Result<DeleteScheduleResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        self.ask_schedule(ScheduleKey::new(&request.namespace, &request.schedule_id), Asked::Delete).await?;
        Ok(DeleteScheduleResponse {})
    }
}
