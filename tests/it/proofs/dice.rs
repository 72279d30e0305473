//! Seeded chance, and random agents made with it. The same seed makes the same case.

use serde_json::{Value, json};

/// splitmix64: small, seeded, good enough to choose with.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}

/// A random agent with its script and the limits it runs under.
pub(super) struct Case {
    pub(super) script: Value,
    pub(super) max_tool_calls: Option<u32>,
}

/// The tools of every case: `once` needs approval under the name's own rule, `again` does not.
pub(super) fn tools() -> Value {
    json!([{"name": "once", "confirmation": {"prompt": "Do {n}?"}}, {"name": "again"}, {"name": "phone", "kind": "external"}])
}

pub(super) fn case(dice: &mut Dice) -> Case {
    let turns = 1 + dice.roll(4);
    let mut script: Vec<Value> = (0..turns).map(|turn| turn_of(dice, turn)).collect();
    script.push(json!({"text": "{{user_count}} said, {{all_tool_results}}"}));
    let max_tool_calls = dice.chance(30).then(|| u32::try_from(dice.roll(5)).unwrap());
    Case { script: json!({"turns": script, "finalize": "cut short"}), max_tool_calls }
}

fn turn_of(dice: &mut Dice, turn: u64) -> Value {
    let mut next = json!({"deltas": ["working ", "on it"], "delta_delay_ms": dice.roll(20)});
    let calls: Vec<Value> = (0..dice.roll(4))
        .map(|n| {
            let args = json!({"ms": dice.roll(120), "n": turn * 10 + n});
            let name = ["once", "again", "phone", "again", "nope"][dice.roll(5) as usize];
            json!({"name": name, "args": args})
        })
        .collect();
    if calls.is_empty() || dice.chance(20) {
        next["await"] = json!({"kind": "clarification", "question": format!("Question {turn}?")});
    }
    if !calls.is_empty() {
        next["tool_calls"] = json!(calls);
    }
    next
}
