//! Tools of kind `a2a`: another agent, called by the A2A protocol 1.0 (JSON-RPC, HTTP+JSON, gRPC) or 0.3 (JSON-RPC).
//!
//! A call takes several rounds. The first sends the message and returns the id of the peer's task, so that the id is in
//! the run's history before anything waits for the task. Later rounds read the task until it ends, asks for input, or the
//! round's time is up. A round that sends never waits, and a round that waits never sends: it can be repeated.

mod access;
mod card;
mod failure;
mod grpc;
mod outcome;
mod peer;
mod round;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use reqwest::{Client, Url, header::HeaderMap};
use windlass_core::{agent::A2aSource, canonical::CanonicalJson};

pub use self::card::{AgentCardSummary, AgentInterface, AgentSkill};
use self::{access::Access, card::Card, round::Round};
use crate::{CallContext, ToolFailure, ToolReply};

const CARD_LIFETIME: Duration = Duration::from_secs(5 * 60);
const MAX_CARDS: usize = 256;

/// Calls other agents. Clones share the cards that were fetched.
#[derive(Clone, Default)]
pub struct A2aPeers {
    cards: Arc<Mutex<HashMap<CardKey, CachedCard>>>,
    /// For digests of headers, so that the cache keeps no credentials.
    hasher: RandomState,
}

/// How peers are reached. Neither client may follow redirects.
#[derive(Debug, Clone, Copy)]
pub struct A2aClients<'a> {
    pub http: &'a Client,
    /// For gRPC: speaks HTTP/2 from the first byte.
    pub http2: &'a Client,
}

/// A card may depend on the credentials that it is asked for with.
type CardKey = (Url, u64);

struct CachedCard {
    card: Arc<Card>,
    fetched: Instant,
}

impl A2aPeers {
    /// One round of a call. `args` are `{"message": text}`.
    ///
    /// `check` is asked before every request. `headers` go to the origin of the card
    /// only: if the card names no interface there, the call fails. Values of headers that are marked as sensitive, and that
    /// of `Authorization`, are removed from everything that the peer says. `context_id` is the conversation at the peer
    /// unless `source` names one.
    #[expect(clippy::too_many_arguments, reason = "the worker has them in different places, and each is needed")]
    pub async fn call(
        &self,
        source: &A2aSource,
        clients: A2aClients<'_>,
        headers: &HeaderMap,
        check: &(dyn Fn(&Url) -> Result<(), ToolFailure> + Send + Sync),
        context_id: Option<&str>,
        context: &CallContext,
        args: &CanonicalJson,
    ) -> Result<ToolReply, ToolFailure> {
        let card_url = card::address(&source.agent_card_url)?;
        let access = Access { client: clients.http, http2: clients.http2, headers, check, card_url: &card_url };
        let round = Round { access, context };
        match &context.resumption {
            Some(resumption) => round.resume(resumption).await,
            None => {
                let context_id = source.context_id.as_deref().or(context_id);
                let card = round.bounded(self.fetch(access)).await?;
                let endpoint = card.endpoint(access, source.binding.as_deref())?;
                let begun = round.begin(&endpoint, context_id, args).await;
                if begun.is_err() {
                    // The agent may have moved.
                    self.lock().remove(&self.key(access));
                }
                begun
            }
        }
    }

    /// What the agent says of itself.
    pub async fn card(
        &self,
        source: &A2aSource,
        clients: A2aClients<'_>,
        headers: &HeaderMap,
        check: &(dyn Fn(&Url) -> Result<(), ToolFailure> + Send + Sync),
    ) -> Result<AgentCardSummary, ToolFailure> {
        let card_url = card::address(&source.agent_card_url)?;
        let card = self
            .fetch(Access { client: clients.http, http2: clients.http2, headers, check, card_url: &card_url })
            .await?;
        Ok(card.summary.clone())
    }

    async fn fetch(&self, access: Access<'_>) -> Result<Arc<Card>, ToolFailure> {
        let key = self.key(access);
        let is_fresh = |cached: &CachedCard| cached.fetched.elapsed() < CARD_LIFETIME;
        if let Some(cached) = self.lock().get(&key).filter(|cached| is_fresh(cached)) {
            return Ok(Arc::clone(&cached.card));
        }
        let card = Arc::new(card::fetch(access).await?);
        let mut cards = self.lock();
        if cards.len() >= MAX_CARDS {
            cards.retain(|_, cached| is_fresh(cached));
        }
        if cards.len() < MAX_CARDS {
            cards.insert(key, CachedCard { card: Arc::clone(&card), fetched: Instant::now() });
        }
        Ok(card)
    }

    fn key(&self, access: Access<'_>) -> CardKey {
        let headers: Vec<_> = access.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        (access.card_url.clone(), self.hasher.hash_one(headers))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CardKey, CachedCard>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for A2aPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aPeers").finish_non_exhaustive()
    }
}
