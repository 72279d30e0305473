//! The work that is measured: one run is T turns, each one plan and K parallel tool calls, then a closing plan.
//!
//! The plans come from the scripted model and the calls go to a tool that does nothing but return about 1 KB of JSON, so
//! that what is left is the cost of the runtime itself.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::{
    agent::AgentDefinition,
    ids::{AgentId, CallId, RunId},
};

/// The tool that runs call.
pub(super) const TOOL: &str = "bench.lookup";

const WORKING: &str = "bench.work";
const ASKING: &str = "bench.ask";
const SHORT: &str = "bench.short";
const RARE: &str = "bench.rare";
const REFUSING: &str = "bench.refuse";
/// How long a parked run waits for its answer.
const THREE_WEEKS_MS: u64 = 21 * 24 * 3600 * 1000;
/// How many entries make a result of about 1 KB.
const ENTRIES: u64 = 20;

/// The shape of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) turns: u32,
    pub(super) calls: u32,
    /// Whether a call must not be repeated. A repeat of a lookup is harmless, so it is allowed unless this is set.
    pub(super) once: bool,
    pub(super) seed: u64,
}

impl Work {
    /// Steps of a run: its turns' plans and calls. The closing plan is not counted.
    pub(super) fn steps(&self) -> u64 {
        u64::from(self.turns) * (1 + u64::from(self.calls))
    }

    pub(super) fn calls_of_a_run(&self) -> u64 {
        u64::from(self.turns) * u64::from(self.calls)
    }

    /// What the scripted model says, turn by turn. Its usage is given because estimating it would read the whole
    /// conversation, and arguments differ from turn to turn because the loop guard would stop a run that repeats itself.
    pub(super) fn scripts(&self) -> String {
        let usage = json!({"input_tokens": 1000, "output_tokens": 20});
        let call = |turn: u32, call: u32| json!({"name": TOOL, "args": {"turn": turn, "call": call}});
        let turn = |turn: u32| {
            let calls: Vec<Value> = (0..self.calls).map(|index| call(turn, index)).collect();
            json!({"tool_calls": calls, "usage": usage})
        };
        let mut turns: Vec<Value> = (0..self.turns).map(turn).collect();
        turns.push(json!({"text": "Done.", "usage": usage}));
        let question = json!({"kind": "clarification", "question": "Go on?", "expires_in_ms": THREE_WEEKS_MS});
        let asking = [json!({"await": question, "usage": usage}), json!({"text": "Done.", "usage": usage})];
        let done = [json!({"text": "Done.", "usage": usage})];
        let refusal = [json!({"text": "No.", "stop": "refusal", "usage": usage})];
        json!({
            WORKING: {"turns": turns},
            ASKING: {"turns": asking},
            SHORT: {"turns": done},
            REFUSING: {"turns": refusal},
        })
        .to_string()
    }

    /// All agents. Callers of the API get fewer turns than a run needs unless the agent allows more.
    pub(super) fn agents(&self) -> Result<Vec<AgentDefinition>, serde_json::Error> {
        let policy = json!({"maxToolTurns": self.turns + 1});
        let agents = json!([
            {"id": WORKING, "model": format!("script:{WORKING}"), "tools": [{"name": TOOL}], "policy": policy},
            {"id": ASKING, "model": format!("script:{ASKING}")},
            {"id": SHORT, "model": format!("script:{SHORT}")},
            {"id": RARE, "model": format!("script:{SHORT}")},
            {"id": REFUSING, "model": format!("script:{REFUSING}")},
        ]);
        serde_json::from_value(agents)
    }

    /// What the tool returns: about 1 KB, different for every call, so that nothing is stored once for all.
    pub(super) fn result(&self, run: &RunId, call: &CallId) -> Value {
        let mut random = Random::new(self.seed, &format!("{run}/{call}"));
        let entries: Vec<Value> = (0..ENTRIES)
            .map(|id| json!({"id": id, "name": format!("{:016x}", random.next()), "score": random.next() % 10_000}))
            .collect();
        json!({"call": call, "entries": entries, "total": ENTRIES})
    }
}

/// The agent whose runs call tools.
pub(super) fn working() -> AgentId {
    AgentId::new(WORKING)
}

/// The agent whose runs ask a question and wait.
pub(super) fn asking() -> AgentId {
    AgentId::new(ASKING)
}

/// The agent whose runs end after one plan.
pub(super) fn short() -> AgentId {
    AgentId::new(SHORT)
}

/// The same under another name, which few runs have.
pub(super) fn rare() -> AgentId {
    AgentId::new(RARE)
}

/// The agent whose runs fail after one plan.
pub(super) fn refusing() -> AgentId {
    AgentId::new(REFUSING)
}

/// The agent of the closed run with this number: one in a thousand is rare, one in a hundred fails.
pub(super) fn closing(number: u32) -> AgentId {
    match number {
        number if number % 1000 == 0 => rare(),
        number if number % 100 == 1 => refusing(),
        _ => short(),
    }
}

/// Seeded numbers (splitmix64), so that the same seed is the same work.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a: different purposes draw different numbers from the same seed.
        let mixed = purpose
            .bytes()
            .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(mixed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{agent, canonical};
    use windlass_models::script::ScriptModel;

    use super::*;

    const WORK: Work = Work { turns: 3, calls: 2, once: false, seed: 1 };

    #[test]
    fn a_run_has_as_many_steps_as_it_says() {
        assert_eq!((WORK.steps(), WORK.calls_of_a_run()), (9, 6));
        let scripts: Value = serde_json::from_str(&WORK.scripts()).unwrap();
        let turns = scripts[WORKING]["turns"].as_array().unwrap();
        let calls: Vec<usize> = turns.iter().map(|turn| turn["tool_calls"].as_array().map_or(0, Vec::len)).collect();
        assert_eq!(calls, [2, 2, 2, 0]);
        assert_eq!(turns[1]["tool_calls"][1], json!({"name": TOOL, "args": {"turn": 1, "call": 1}}));
    }

    #[test]
    fn scripts_and_agents_fit_together() {
        let scripts = ScriptModel::from_json(&WORK.scripts()).unwrap();
        let models: Vec<String> = scripts.names().map(|name| format!("script:{name}")).collect();
        let agents = WORK.agents().unwrap();
        assert!(agents.iter().all(|agent| agent::check(agent).is_empty() && models.contains(&agent.model)));
    }

    #[test]
    fn few_closed_runs_are_rare_or_fail() {
        let with = |agent: &AgentId| (0..2_000).filter(|number| closing(*number) == *agent).count();
        assert_eq!([rare(), refusing(), short()].map(|agent| with(&agent)), [2, 20, 1978]);
    }

    #[test]
    fn results_have_about_a_kilobyte_and_repeat_only_with_the_same_random_seed() {
        let result = |seed, call: &str| Work { seed, ..WORK }.result(&RunId::new("run-1"), &CallId::new(call));
        assert!((950..1100).contains(&canonical::to_bytes(&result(1, "call-0-0")).len()));
        assert_eq!(result(1, "call-0-0"), result(1, "call-0-0"));
        assert_ne!(result(1, "call-0-0"), result(1, "call-0-1"));
        assert_ne!(result(1, "call-0-0"), result(2, "call-0-0"));
    }
}
