//! The work of a run, as in `workers/src/bench/work.rs`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How many entries make a result of about 1 KB.
const ENTRIES: u64 = 20;

/// The shape of a run. One that asks has no turns: it plans, waits for an answer, and plans again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    pub turns: u32,
    pub calls: u32,
    pub asks: bool,
}

impl Work {
    pub const ASKS: Self = Self { turns: 0, calls: 0, asks: true };
}

/// A call that a plan decided upon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub id: String,
    pub turn: u32,
    pub call: u32,
}

/// The decision of a plan: the calls of this turn. The closing plan has none.
pub fn plan(work: Work, turn: u32) -> Vec<Call> {
    let calls = if turn < work.turns { work.calls } else { 0 };
    (0..calls).map(|call| Call { id: format!("call-{turn}-{call}"), turn, call }).collect()
}

/// What the tool returns: about 1 KB, different for every call of every run.
pub fn result(run: &str, call: &Call) -> Value {
    let mut random = Random::new(&format!("{run}/{}", call.id));
    let entries: Vec<Value> = (0..ENTRIES)
        .map(|id| json!({"id": id, "name": format!("{:016x}", random.next()), "score": random.next() % 10_000}))
        .collect();
    json!({"call": call.id, "entries": entries, "total": ENTRIES})
}

/// splitmix64, seeded by a name.
struct Random(u64);

impl Random {
    fn new(purpose: &str) -> Self {
        let mixed = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(mixed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_calls_and_a_closing_plan_without_any() {
        let work = Work { turns: 3, calls: 2, asks: false };
        assert_eq!([0, 2, 3].map(|turn| plan(work, turn).len()), [2, 2, 0]);
        assert_eq!(plan(Work::ASKS, 0), []);
    }

    #[test]
    fn results_have_about_a_kilobyte_and_differ() {
        let calls = plan(Work { turns: 1, calls: 2, asks: false }, 0);
        assert!((950..1100).contains(&result("run-1", &calls[0]).to_string().len()));
        assert_ne!(result("run-1", &calls[0]), result("run-1", &calls[1]));
        assert_ne!(result("run-1", &calls[0]), result("run-2", &calls[0]));
    }
}
