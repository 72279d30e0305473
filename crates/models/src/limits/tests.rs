//! The limits on a paused clock, with a model that answers as it is told.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use secrecy::SecretString;
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{advance, sleep},
};
use windlass_core::{envelope::TokenUsage, event::EnforcementMechanism, message::Message, stop::StopReason};

use super::*;
use crate::{
    DeltaKind,
    fixtures::{self, Closed, Recorder},
};

/// Answers after a time, with the next result of its list or with success.
#[derive(Default)]
struct Told {
    takes: Duration,
    results: Mutex<VecDeque<Result<u64, ModelError>>>,
    running: AtomicUsize,
    most: AtomicUsize,
    calls: AtomicUsize,
}

#[async_trait]
impl Model for Told {
    async fn respond(&self, _: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        sleep(self.takes).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        sink.push(Delta { part: 0, kind: DeltaKind::Text("a".into()) }).await?;
        let total_tokens = lock(&self.results).pop_front().unwrap_or(Ok(0))?;
        Ok(ModelResponse {
            parts: Vec::new(),
            awaits: Vec::new(),
            stop: StopReason::EndTurn,
            usage: TokenUsage { total_tokens, ..TokenUsage::default() },
            response_id: None,
            enforced: EnforcementMechanism::None,
        })
    }
}

fn told(takes: u64, results: Vec<Result<u64, ModelError>>) -> Arc<Told> {
    Arc::new(Told { takes: Duration::from_secs(takes), results: Mutex::new(results.into()), ..Told::default() })
}

fn limited(model: &Arc<Told>, limits: serde_json::Value) -> Arc<Limited> {
    Arc::new(Limited::new(Arc::clone(model) as Arc<dyn Model>, serde_json::from_value(limits).unwrap()))
}

fn with_key(key: &str) -> ModelRequest {
    let credentials = Some(SecretString::from(key));
    ModelRequest { provider: "p".into(), credentials, ..fixtures::request(vec![Message::user("x".repeat(350))]) }
}

/// Calls the model in a task and returns when it was answered, in seconds after now.
fn call(limited: &Arc<Limited>, request: ModelRequest) -> JoinHandle<Result<u64, ModelError>> {
    let (limited, start) = (Arc::clone(limited), Instant::now());
    tokio::spawn(async move { limited.respond(request, &mut Recorder::new()).await.map(|_| start.elapsed().as_secs()) })
}

async fn answered(calls: Vec<JoinHandle<Result<u64, ModelError>>>) -> Vec<u64> {
    let mut at = Vec::new();
    for call in calls {
        at.push(call.await.unwrap().unwrap());
    }
    at
}

fn failed(class: ErrorClass) -> Result<u64, ModelError> {
    Err(ModelError::new(class, "no"))
}

#[tokio::test(start_paused = true)]
async fn calls_at_once_are_limited_per_key_and_served_in_order() {
    let model = told(10, vec![]);
    let limited = limited(&model, json!({"maxConcurrent": 2}));
    let calls = (0..5).map(|_| call(&limited, with_key("a"))).collect();
    assert_eq!(answered(calls).await, [10, 10, 20, 20, 30]);
    assert_eq!(model.most.load(Ordering::SeqCst), 2);
    let calls = ["a", "a", "b", "b", "b"].map(|key| call(&limited, with_key(key))).into();
    assert_eq!(answered(calls).await, [10, 10, 10, 10, 20]);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_deadline_and_says_for_what() {
    let model = told(100, vec![]);
    let limited = limited(&model, json!({"maxConcurrent": 1}));
    let first = call(&limited, with_key("a"));
    sleep(Duration::from_secs(1)).await;
    let deadline = Some((Instant::now() + Duration::from_secs(5)).into_std());
    let error = call(&limited, ModelRequest { deadline, ..with_key("a") }).await.unwrap().unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorClass::Timeout, true));
    assert!(error.message.ends_with("waited for one of 1 calls at once to the provider p to end"), "{error}");
    assert_eq!(model.calls.load(Ordering::SeqCst), 1);
    assert_eq!(first.await.unwrap().unwrap(), 100);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_cancellation_and_frees_the_place_in_the_queue() {
    let model = told(10, vec![]);
    let limited = limited(&model, json!({"maxConcurrent": 1, "requestsPerMinute": 2}));
    let first = call(&limited, with_key("a"));
    let waiting = with_key("a");
    let cancel = waiting.cancel.clone();
    let second = call(&limited, waiting);
    let third = call(&limited, with_key("a"));
    sleep(Duration::from_secs(1)).await;
    cancel.cancel();
    assert_eq!(second.await.unwrap().unwrap_err(), ModelError::cancelled());
    // The cancelled call was not charged.
    assert_eq!(answered(vec![first, third]).await, [10, 20]);
}

#[tokio::test(start_paused = true)]
async fn requests_per_minute_are_limited_per_key() {
    let model = told(0, vec![]);
    let limited = limited(&model, json!({"requestsPerMinute": 2}));
    let calls = ["a", "a", "a", "b", "a", "a"].map(|key| call(&limited, with_key(key))).into();
    assert_eq!(answered(calls).await, [0, 0, 60, 0, 60, 120]);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_estimated_before_and_corrected_after() {
    // Each call is estimated at 104 tokens. The first turns out to have 10, the third 300.
    let model = told(1, vec![Ok(10), Ok(104), Ok(300), Ok(104)]);
    let limited = limited(&model, json!({"tokensPerMinute": 250}));
    let mut at = Vec::new();
    for _ in 0..4 {
        let waited = call(&limited, with_key("a")).await.unwrap().unwrap();
        at.push(waited);
    }
    // 10, then 10 + 104, then 10 + 104 + 104; the fourth waits until the 300 have flowed back, a minute after the third began.
    assert_eq!(at, [1, 1, 1, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_is_free_only_after_the_deadline_is_not_waited_for() {
    let model = told(0, vec![]);
    let limited = limited(&model, json!({"requestsPerMinute": 1}));
    call(&limited, with_key("a")).await.unwrap().unwrap();
    let start = Instant::now();
    let deadline = Some((start + Duration::from_secs(30)).into_std());
    let error = call(&limited, ModelRequest { deadline, ..with_key("a") }).await.unwrap().unwrap_err();
    assert_eq!((error.class, error.retry_after), (ErrorClass::Timeout, Some(Duration::from_secs(60))));
    assert!(error.message.ends_with("the rate of 1 requests per minute to the provider p"), "{error}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_of_the_provider_holds_back_the_other_calls_with_the_key() {
    let busy = ModelError::new(ErrorClass::RateLimit, "slow down").with_retry_after(Duration::from_secs(20));
    let model = told(0, vec![Err(busy.clone()), Ok(1), Ok(1), Err(busy.clone().with_retryable(false))]);
    let limited = limited(&model, json!({}));
    assert_eq!(call(&limited, with_key("a")).await.unwrap().unwrap_err(), busy);
    let calls = ["a", "b"].map(|key| call(&limited, with_key(key))).into();
    assert_eq!(answered(calls).await, [20, 0]);
    // A quota that does not pass is no reason to wait.
    assert!(call(&limited, with_key("a")).await.unwrap().is_err());
    assert_eq!(call(&limited, with_key("a")).await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_keeps_failing_is_not_called_for_a_while() {
    let failures = vec![failed(ErrorClass::Overloaded), failed(ErrorClass::Server), failed(ErrorClass::Timeout)];
    let model = told(0, failures);
    let limited = limited(&model, json!({"breaker": {"failures": 3}}));
    for _ in 0..3 {
        assert_eq!(call(&limited, with_key("a")).await.unwrap().unwrap_err().message, "no");
    }
    advance(Duration::from_secs(10)).await;
    let error = call(&limited, with_key("b")).await.unwrap().unwrap_err();
    assert_eq!(
        (error.class, error.retryable, error.retry_after, error.message.as_str()),
        (
            ErrorClass::Overloaded,
            true,
            Some(Duration::from_secs(20)),
            "the provider p failed several times in a row and is not called for 20 s"
        )
    );
    assert_eq!(model.calls.load(Ordering::SeqCst), 3);
    advance(Duration::from_secs(20)).await;
    assert_eq!(call(&limited, with_key("a")).await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_probe_lets_the_next_call_try() {
    let model = told(5, vec![failed(ErrorClass::Server)]);
    let limited = limited(&model, json!({"breaker": {"failures": 1, "coolDownSeconds": 10}, "requestsPerMinute": 3}));
    call(&limited, with_key("a")).await.unwrap().unwrap_err();
    sleep(Duration::from_secs(10)).await;
    let probe = call(&limited, with_key("a"));
    sleep(Duration::from_secs(1)).await;
    let refused = call(&limited, with_key("a")).await.unwrap().unwrap_err();
    assert_eq!(refused.class, ErrorClass::Overloaded);
    probe.abort();
    assert!(probe.await.unwrap_err().is_cancelled());
    assert_eq!(call(&limited, with_key("a")).await.unwrap().unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_while_the_breaker_opened_is_refused_and_not_charged() {
    let model = told(10, vec![failed(ErrorClass::Server)]);
    let limited = limited(
        &model,
        json!({"maxConcurrent": 1, "requestsPerMinute": 2, "breaker": {"failures": 1, "coolDownSeconds": 5}}),
    );
    let (first, second) = (call(&limited, with_key("a")), call(&limited, with_key("a")));
    assert_eq!(first.await.unwrap().unwrap_err().class, ErrorClass::Server);
    assert_eq!(second.await.unwrap().unwrap_err().class, ErrorClass::Overloaded);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(call(&limited, with_key("a")).await.unwrap().unwrap(), 10, "one of the two requests is free");
}

#[tokio::test(start_paused = true)]
async fn a_failing_log_says_nothing_about_the_provider() {
    let model = told(0, vec![]);
    let limited = limited(&model, json!({"breaker": {"failures": 1}}));
    let error = limited.respond(with_key("a"), &mut Closed).await.unwrap_err();
    assert_eq!(error.message, "the log is closed");
    assert_eq!(call(&limited, with_key("a")).await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_are_not_kept_in_clear_and_forgotten_when_idle() {
    let model = told(0, vec![]);
    let limited = limited(&model, json!({"requestsPerMinute": 5}));
    for number in 0..KEYS + 10 {
        call(&limited, with_key(&format!("secret-{number}"))).await.unwrap().unwrap();
    }
    assert_eq!(lock(&limited.keys).len(), KEYS + 10, "all were used within the minute");
    assert!(!format!("{limited:?} {:?}", lock(&limited.keys).keys()).contains("secret"));
    sleep(Duration::from_secs(61)).await;
    call(&limited, with_key("another")).await.unwrap().unwrap();
    assert_eq!(lock(&limited.keys).len(), 1);
}

#[test]
fn limits_are_read_from_a_config() {
    let limits = json!({"maxConcurrent": 8, "requestsPerMinute": 60, "tokensPerMinute": 90000, "breaker": {}});
    let limits: Limits = serde_json::from_value(limits).unwrap();
    let expected = Limits {
        max_concurrent: Some(8),
        requests_per_minute: Some(60),
        tokens_per_minute: Some(90_000),
        breaker: Some(BreakerOptions::default()),
    };
    assert_eq!(limits, expected);
    assert_eq!(serde_json::from_value::<Limits>(json!({})).unwrap(), Limits::default());
}
