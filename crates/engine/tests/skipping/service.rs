//! The protocol's test service.

use std::sync::Arc;

use prost::Message;
use tempfile::TempDir;
use temporalio_protos::temporal::api::testservice::v1::{
    GetCurrentTimeResponse, LockTimeSkippingRequest, LockTimeSkippingResponse, SleepRequest, SleepResponse,
    SleepUntilRequest, UnlockTimeSkippingRequest, UnlockTimeSkippingResponse,
};
use tonic::{Code, Status};
use windlass_engine::{SkippingClock, SystemClock};

use crate::rig::{Rig, SECOND, WEEK, assert_span, nanos, span};

const TEST: &str = "temporal.api.testservice.v1.TestService";

async fn ask<Response: Message + Default>(rig: &Rig, rpc: &str, request: impl Message) -> Result<Response, Status> {
    rig.ask(TEST, rpc, &request).await
}

async fn now(rig: &Rig) -> i64 {
    let response: GetCurrentTimeResponse = ask(rig, "GetCurrentTime", ()).await.unwrap();
    nanos(response.time.unwrap())
}

#[tokio::test]
async fn a_client_locks_unlocks_and_sleeps() {
    let rig = Rig::new(&Arc::new(SkippingClock::new())).await;
    let began = now(&rig).await;
    let week = || SleepRequest { duration: Some(span(WEEK)) };

    // The clock starts locked; a second lock keeps it at real speed.
    let _: LockTimeSkippingResponse = ask(&rig, "LockTimeSkipping", LockTimeSkippingRequest {}).await.unwrap();
    let moment = SleepRequest { duration: Some(span(SECOND / 1000)) };
    let _: SleepResponse = ask(&rig, "UnlockTimeSkippingWithSleep", moment).await.unwrap();
    assert_span(began, now(&rig).await, SECOND / 1000);
    let _: UnlockTimeSkippingResponse = ask(&rig, "UnlockTimeSkipping", UnlockTimeSkippingRequest {}).await.unwrap();

    let _: SleepResponse = ask(&rig, "UnlockTimeSkippingWithSleep", week()).await.unwrap();
    assert_span(began, now(&rig).await, WEEK);
    let _: UnlockTimeSkippingResponse = ask(&rig, "UnlockTimeSkipping", UnlockTimeSkippingRequest {}).await.unwrap();
    let _: SleepResponse = ask(&rig, "Sleep", week()).await.unwrap();
    assert_span(began, now(&rig).await, 2 * WEEK);
    let mut later = prost_wkt_types::Timestamp { seconds: (began + 3 * WEEK) / SECOND + 1, nanos: 0 };
    let _: SleepResponse = ask(&rig, "SleepUntil", SleepUntilRequest { timestamp: Some(later) }).await.unwrap();
    assert_span(began, now(&rig).await, 3 * WEEK);
    later.seconds = 1;
    let _: SleepResponse = ask(&rig, "SleepUntil", SleepUntilRequest { timestamp: Some(later) }).await.unwrap();

    for (rpc, refused) in [
        ("UnlockTimeSkipping", ask::<SleepResponse>(&rig, "UnlockTimeSkipping", UnlockTimeSkippingRequest {}).await),
        ("UnlockTimeSkippingWithSleep", ask(&rig, "UnlockTimeSkippingWithSleep", week()).await),
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition, "{rpc}");
    }
    let negative = SleepRequest { duration: Some(prost_wkt_types::Duration { seconds: -1, nanos: 0 }) };
    assert_eq!(ask::<SleepResponse>(&rig, "Sleep", negative).await.unwrap_err().code(), Code::InvalidArgument);
    rig.close().await;
}

#[tokio::test]
async fn an_engine_in_real_time_has_no_test_service() {
    let rig = Rig::on(Arc::new(TempDir::new().unwrap()), Arc::new(SystemClock)).await;
    let refused = ask::<GetCurrentTimeResponse>(&rig, "GetCurrentTime", ()).await.unwrap_err();
    let message = format!("the embedded engine does not implement {TEST}/GetCurrentTime: its clock cannot skip time");
    assert_eq!((refused.code(), refused.message()), (Code::Unimplemented, message.as_str()));
    rig.close().await;
}
