//! The protocol's test service: clients lock, unlock and sleep through time that can be skipped. Only an engine with a
//! [`SkippingClock`] has it.

use std::time::Duration;

use prost_wkt_types::{Duration as ProtoDuration, Timestamp};
use temporalio_protos::temporal::api::testservice::v1::{
    GetCurrentTimeResponse, LockTimeSkippingRequest, LockTimeSkippingResponse, SleepRequest, SleepResponse,
    SleepUntilRequest, UnlockTimeSkippingRequest, UnlockTimeSkippingResponse,
};

use crate::{
    clock::{Clock as _, NotLocked, SkippingClock},
    refusal::Refusal,
    time::{SECOND, check_span, span, timestamp},
};

pub(super) async fn lock(
    clock: &SkippingClock,
    _request: LockTimeSkippingRequest,
) -> Result<LockTimeSkippingResponse, Refusal> {
    clock.lock();
    Ok(LockTimeSkippingResponse {})
}

pub(super) async fn unlock(
    clock: &SkippingClock,
    _request: UnlockTimeSkippingRequest,
) -> Result<UnlockTimeSkippingResponse, Refusal> {
    clock.unlock()?;
    Ok(UnlockTimeSkippingResponse {})
}

pub(super) async fn sleep(clock: &SkippingClock, request: SleepRequest) -> Result<SleepResponse, Refusal> {
    clock.sleep(asked(request.duration)?).await;
    Ok(SleepResponse {})
}

pub(super) async fn sleep_until(clock: &SkippingClock, request: SleepUntilRequest) -> Result<SleepResponse, Refusal> {
    let Timestamp { seconds, nanos } = request.timestamp.unwrap_or_default();
    clock.sleep_until(seconds.saturating_mul(SECOND).saturating_add(nanos.into())).await;
    Ok(SleepResponse {})
}

pub(super) async fn unlock_with_sleep(clock: &SkippingClock, request: SleepRequest) -> Result<SleepResponse, Refusal> {
    clock.unlock_with_sleep(asked(request.duration)?).await?;
    Ok(SleepResponse {})
}

pub(super) async fn current_time(clock: &SkippingClock) -> Result<GetCurrentTimeResponse, Refusal> {
    Ok(GetCurrentTimeResponse { time: Some(timestamp(clock.now())) })
}

fn asked(mut duration: Option<ProtoDuration>) -> Result<Duration, Refusal> {
    check_span(&mut duration).map_err(Refusal::InvalidArgument)?;
    Ok(Duration::from_nanos(u64::try_from(span(duration.as_ref())).unwrap_or_default()))
}

impl From<NotLocked> for Refusal {
    fn from(refused: NotLocked) -> Self {
        Self::FailedPrecondition(refused.to_string())
    }
}
