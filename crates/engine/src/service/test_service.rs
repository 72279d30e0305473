//! The protocol's test service: clients lock and unlock time skipping, and sleep. Only an engine with a
//! [`SkippingClock`] has it.

use std::time::Duration;

use prost_wkt_types::{Duration as ProtoDuration, Timestamp};
use temporalio_protos::temporal::api::testservice::v1::{
    GetCurrentTimeResponse, LockTimeSkippingRequest, LockTimeSkippingResponse, SleepRequest, SleepResponse,
    SleepUntilRequest, UnlockTimeSkippingRequest, UnlockTimeSkippingResponse,
};

use crate::{
    clock::{Clock as _, NotLocked, SkippingClock},
    service_error::ServiceError,
    time::{SECOND, check_span, span, timestamp},
};

pub(super) async fn lock(
    clock: &SkippingClock,
    _request: LockTimeSkippingRequest,
) -> Result<LockTimeSkippingResponse, ServiceError> {
    clock.lock();
    Ok(LockTimeSkippingResponse {})
}

pub(super) async fn unlock(
    clock: &SkippingClock,
    _request: UnlockTimeSkippingRequest,
) -> Result<UnlockTimeSkippingResponse, ServiceError> {
    clock.unlock()?;
    Ok(UnlockTimeSkippingResponse {})
}

pub(super) async fn sleep(clock: &SkippingClock, request: SleepRequest) -> Result<SleepResponse, ServiceError> {
    clock.sleep(asked(request.duration)?).await;
    Ok(SleepResponse {})
}

pub(super) async fn sleep_until(
    clock: &SkippingClock,
    request: SleepUntilRequest,
) -> Result<SleepResponse, ServiceError> {
    let Timestamp { seconds, nanos } = request.timestamp.unwrap_or_default();
    clock.sleep_until(seconds.saturating_mul(SECOND).saturating_add(nanos.into())).await;
    Ok(SleepResponse {})
}

pub(super) async fn unlock_with_sleep(
    clock: &SkippingClock,
    request: SleepRequest,
) -> Result<SleepResponse, ServiceError> {
    clock.unlock_with_sleep(asked(request.duration)?).await?;
    Ok(SleepResponse {})
}

pub(super) async fn current_time(clock: &SkippingClock) -> Result<GetCurrentTimeResponse, ServiceError> {
    Ok(GetCurrentTimeResponse { time: Some(timestamp(clock.now())) })
}

fn asked(mut duration: Option<ProtoDuration>) -> Result<Duration, ServiceError> {
    check_span(&mut duration).map_err(ServiceError::InvalidArgument)?;
    Ok(Duration::from_nanos(u64::try_from(span(duration.as_ref())).unwrap_or_default()))
}

impl From<NotLocked> for ServiceError {
    fn from(refused: NotLocked) -> Self {
        Self::FailedPrecondition(refused.to_string())
    }
}
