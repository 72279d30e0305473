//! Bodies that this worker stored a moment ago.
//!
//! The result of a call is stored by one activity and read by the next plan, which mostly runs on the same worker. A body is
//! addressed by its digest, so an entry is never out of date.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use windlass_core::canonical::{CanonicalJson, Digest};

/// At most as many bytes of bodies are kept.
const MOST_BYTES: u64 = 8 << 20;
/// A larger body is read from the store: the time that takes is small beside what the model does with it.
const LARGEST: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct RecentBodies {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bodies: HashMap<Digest, CanonicalJson>,
    /// In the order in which they were stored.
    order: VecDeque<Digest>,
    bytes: u64,
}

impl RecentBodies {
    pub(crate) fn get(&self, digest: &Digest) -> Option<CanonicalJson> {
        self.lock().bodies.get(digest).cloned()
    }

    /// Keeps a body that is in the store. The oldest ones are dropped.
    pub(crate) fn keep(&self, digest: Digest, body: CanonicalJson) {
        if body.bytes() > LARGEST {
            return;
        }
        let mut kept = self.lock();
        let bytes = body.bytes();
        if kept.bodies.insert(digest, body).is_some() {
            return;
        }
        kept.order.push_back(digest);
        kept.bytes += bytes;
        while kept.bytes > MOST_BYTES
            && let Some(oldest) = kept.order.pop_front()
        {
            let dropped = kept.bodies.remove(&oldest);
            kept.bytes -= dropped.map_or(0, |body| body.bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(of: char, bytes: usize) -> (Digest, CanonicalJson) {
        let body = CanonicalJson::from(json!(of.to_string().repeat(bytes - 2)));
        (body.digest(), body)
    }

    #[test]
    fn a_kept_body_is_found_by_its_digest() {
        let (recent, (digest, text)) = (RecentBodies::default(), body('a', 100));
        assert_eq!(recent.get(&digest), None);
        recent.keep(digest, text.clone());
        recent.keep(digest, text.clone());
        assert_eq!(recent.get(&digest), Some(text));
        assert_eq!(recent.lock().bytes, 100);
    }

    #[test]
    fn large_bodies_are_not_kept_and_old_ones_are_dropped() {
        let recent = RecentBodies::default();
        let (digest, large) = body('a', LARGEST as usize + 1);
        recent.keep(digest, large);
        assert_eq!(recent.get(&digest), None);

        let each = LARGEST as usize;
        let fit = MOST_BYTES as usize / each;
        let bodies: Vec<_> = (0..=fit).map(|n| body(char::from_u32(0x100 + n as u32).unwrap(), each / 2)).collect();
        bodies.iter().for_each(|(digest, text)| recent.keep(*digest, text.clone()));
        assert!(recent.lock().bytes <= MOST_BYTES);
        assert_eq!(recent.get(&bodies[fit].0), Some(bodies[fit].1.clone()));
        assert_eq!(recent.get(&bodies[0].0), None, "two bytes a character: one body more than fits");
    }
}
