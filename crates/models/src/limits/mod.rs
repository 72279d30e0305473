//! Limits of a provider, shared by all runs of a worker: calls at once, rates per minute, and a circuit breaker.
//!
//! The rules are pure state machines; [`Limited`] waits for them and reports to them.

mod breaker;
mod bucket;
mod rates;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until, timeout_at},
};
use windlass_core::canonical::Digest;

pub use self::breaker::BreakerOptions;
use self::{
    breaker::{Breaker, Evidence, Ticket},
    rates::{Charge, Rates, Wait, WaitReason},
};
use crate::{Delta, DeltaSink, ErrorClass, Model, ModelError, ModelRequest, ModelResponse, estimate_tokens};

/// The limits of a provider. A number of 0 is read as 1; what is absent is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Calls at once with one key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// With one key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Input and output with one key, cached tokens included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
    /// For the provider, whatever the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerOptions>,
}

/// A provider's models within its limits.
pub struct Limited {
    model: Arc<dyn Model>,
    limits: Limits,
    /// The state machines count time from here.
    start: Instant,
    breaker: Option<Mutex<Breaker>>,
    /// By the digest of the credentials: the credentials themselves are not kept.
    keys: Mutex<HashMap<Option<Digest>, Arc<Key>>>,
}

/// What calls with one key share.
struct Key {
    slots: Option<Arc<Semaphore>>,
    /// Held by the call that waits for the rates; the others wait behind it in order, so that a large call is not passed
    /// by small ones for ever.
    turn: tokio::sync::Mutex<()>,
    rates: Mutex<Rates>,
}

/// Keys that are kept before those that are not in use are forgotten.
const KEYS: usize = 256;

/// A provider may ask for any time; after this long it is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

impl Limited {
    pub fn new(model: Arc<dyn Model>, limits: Limits) -> Self {
        let breaker = limits.breaker.map(|options| Mutex::new(Breaker::new(options)));
        Self { model, limits, start: Instant::now(), breaker, keys: Mutex::default() }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn key(&self, request: &ModelRequest) -> Arc<Key> {
        let digest = request.credentials.as_ref().map(|key| Digest::of_bytes(key.expose_secret().as_bytes()));
        let mut keys = lock(&self.keys);
        if keys.len() >= KEYS && !keys.contains_key(&digest) {
            let now = self.now();
            keys.retain(|_, key| Arc::strong_count(key) > 1 || !lock(&key.rates).is_idle(now));
        }
        Arc::clone(keys.entry(digest).or_insert_with(|| Arc::new(Key::new(&self.limits))))
    }

    /// A place among the calls at once.
    async fn slot(&self, key: &Key, request: &ModelRequest) -> Result<Option<OwnedSemaphorePermit>, ModelError> {
        let Some(slots) = &key.slots else { return Ok(None) };
        let limit = self.limits.max_concurrent.unwrap_or_default();
        let waited_for = || format!("one of {limit} calls at once to the provider {} to end", request.provider);
        // The semaphore is never closed.
        Ok(bounded(request, waited_for, Arc::clone(slots).acquire_owned()).await?.ok())
    }

    /// Waits until the rates allow the call and charges it.
    async fn charge(&self, key: &Key, request: &ModelRequest) -> Result<Charge, ModelError> {
        let tokens = if self.limits.tokens_per_minute.is_some() { estimate_tokens(request) } else { 0 };
        let _turn =
            bounded(request, || "its turn among the calls that wait for a rate".to_owned(), key.turn.lock()).await?;
        loop {
            let now = self.now();
            let wait = match lock(&key.rates).charge(tokens, now) {
                Ok(charge) => return Ok(charge),
                Err(wait) => wait,
            };
            let (until, waited_for) = (self.start + wait.until, || self.waited_for(wait, request));
            if request.deadline.is_some_and(|deadline| Instant::from_std(deadline) < until) {
                // Nothing is gained by waiting here until the deadline.
                return Err(too_late(&waited_for()).with_retry_after(wait.until.saturating_sub(now)));
            }
            bounded(request, waited_for, sleep_until(until)).await?;
        }
    }

    fn waited_for(&self, wait: Wait, request: &ModelRequest) -> String {
        let provider = &request.provider;
        let rate = |limit: Option<u32>, what: &str| {
            format!("the rate of {} {what} per minute to the provider {provider}", limit.unwrap_or_default())
        };
        match wait.reason {
            WaitReason::Requests => rate(self.limits.requests_per_minute, "requests"),
            WaitReason::Tokens => rate(self.limits.tokens_per_minute, "tokens"),
            WaitReason::Asked => format!("the time that the provider {provider} asked to wait after too many requests"),
        }
    }

    /// An error if the breaker refuses calls.
    fn refuse(&self, request: &ModelRequest) -> Result<(), ModelError> {
        let rest = self.breaker.as_ref().and_then(|breaker| lock(breaker).refuses(self.now()));
        rest.map_or(Ok(()), |rest| Err(refused(rest, request)))
    }

    fn admit(&self, request: &ModelRequest) -> Result<Option<Admitted<'_>>, ModelError> {
        let Some(breaker) = &self.breaker else { return Ok(None) };
        let ticket = lock(breaker).admit(self.now()).map_err(|rest| refused(rest, request))?;
        Ok(Some(Admitted { limited: self, breaker, ticket, evidence: Evidence::Nothing }))
    }
}

#[async_trait]
impl Model for Limited {
    async fn respond(&self, request: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        self.refuse(&request)?;
        let key = self.key(&request);
        let _slot = self.slot(&key, &request).await?;
        let charge = self.charge(&key, &request).await?;
        let admitted = self.admit(&request).inspect_err(|_| lock(&key.rates).give_back(charge))?;
        let mut sink = WatchedSink { sink, failed: false };
        let result = self.model.respond(request, &mut sink).await;
        if let Some(mut admitted) = admitted {
            admitted.evidence = match &result {
                Ok(_) => Evidence::Works,
                // The log's failure, not the provider's.
                Err(_) if sink.failed => Evidence::Nothing,
                Err(error) => Evidence::of(error.class),
            };
        }
        let mut rates = lock(&key.rates);
        let usage = result.as_ref().map_or_else(|error| error.usage.as_deref(), |response| Some(&response.usage));
        // Without a count the estimate stays.
        if let Some(usage) = usage.filter(|usage| usage.total_tokens > 0) {
            rates.used(charge, usage.total_tokens);
        }
        if let Err(ModelError { class: ErrorClass::RateLimit, retryable: true, retry_after: Some(wait), .. }) = &result
        {
            rates.close_until(self.now() + (*wait).min(LONGEST_PAUSE));
        }
        drop(rates);
        result
    }
}

impl Key {
    fn new(limits: &Limits) -> Self {
        let slots = |limit: u32| Arc::new(Semaphore::new(limit.max(1) as usize));
        Self {
            slots: limits.max_concurrent.map(slots),
            turn: tokio::sync::Mutex::new(()),
            rates: Mutex::new(Rates::new(limits)),
        }
    }
}

/// A call that the breaker admitted. It reports when it is dropped, so that a call that is abandoned does too.
struct Admitted<'a> {
    limited: &'a Limited,
    breaker: &'a Mutex<Breaker>,
    ticket: Ticket,
    evidence: Evidence,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        lock(self.breaker).record(self.ticket, self.evidence, self.limited.now());
    }
}

/// Knows whether it was the sink that failed.
struct WatchedSink<'a> {
    sink: &'a mut dyn DeltaSink,
    failed: bool,
}

#[async_trait]
impl DeltaSink for WatchedSink<'_> {
    async fn push(&mut self, delta: Delta) -> Result<(), ModelError> {
        let pushed = self.sink.push(delta).await;
        self.failed |= pushed.is_err();
        pushed
    }
}

/// Waits until the work is done, the call is cancelled or its attempt times out.
async fn bounded<T>(
    request: &ModelRequest,
    waited_for: impl Fn() -> String,
    work: impl Future<Output = T>,
) -> Result<T, ModelError> {
    let until_deadline = async {
        match request.deadline {
            Some(deadline) => timeout_at(Instant::from_std(deadline), work).await.map_err(|_| too_late(&waited_for())),
            None => Ok(work.await),
        }
    };
    request.cancel.run_until_cancelled(until_deadline).await.unwrap_or_else(|| Err(ModelError::cancelled()))
}

fn too_late(waited_for: &str) -> ModelError {
    let message =
        format!("the model was not called before the deadline of the attempt: the call waited for {waited_for}");
    ModelError::new(ErrorClass::Timeout, message)
}

fn refused(rest: Duration, request: &ModelRequest) -> ModelError {
    let message = format!(
        "the provider {} failed several times in a row and is not called for {} s",
        request.provider,
        rest.as_secs_f64().ceil()
    );
    ModelError::new(ErrorClass::Overloaded, message).with_retry_after(rest)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited").field("limits", &self.limits).finish_non_exhaustive()
    }
}
