//! What a reasoning level means in words, and how it falls while a run goes on: the first turns plan, the later ones mostly
//! carry out.

use serde::{Deserialize, Serialize};

/// From turn `after_turn` on, each turn has `factor` times the level of the one before, and never less than `floor`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningDecay {
    /// Turns are numbered from 0.
    #[serde(default)]
    pub after_turn: u32,
    /// Between 0 and 1.
    pub factor: f64,
    #[serde(default)]
    pub floor: u8,
}

impl ReasoningDecay {
    /// Never above the level itself.
    pub fn apply(self, level: u8, turn: u32) -> u8 {
        let turns = turn.saturating_sub(self.after_turn).min(1000);
        let exponent = i32::try_from(turns).unwrap_or(i32::MAX);
        let decayed = f64::from(level) * self.factor.clamp(0.0, 1.0).powi(exponent);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the level")]
        let decayed = decayed.round() as u8;
        decayed.max(self.floor).min(level)
    }
}

/// An effort in the words that providers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    Off,
    Low,
    Medium,
    High,
}

impl Effort {
    /// The agent-runs protocol's bands.
    pub fn of_level(level: u8) -> Self {
        match level {
            0 => Self::Off,
            1..=35 => Self::Low,
            36..=65 => Self::Medium,
            _ => Self::High,
        }
    }

    /// The protocol's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_level_halves_after_its_turn_and_stops_at_the_floor() {
        let decay = ReasoningDecay { after_turn: 2, factor: 0.5, floor: 10 };
        let levels: Vec<u8> = (0..8).map(|turn| decay.apply(80, turn)).collect();
        assert_eq!(levels, [80, 80, 80, 40, 20, 10, 10, 10]);
    }

    proptest! {
        #[test]
        fn the_level_never_rises(
            level in 0_u8..=100, after_turn in 0_u32..50, factor in -1.0_f64..2.0, floor in 0_u8..=120, turn in 0_u32..5000,
        ) {
            let decay = ReasoningDecay { after_turn, factor, floor };
            let (now, next) = (decay.apply(level, turn), decay.apply(level, turn + 1));
            prop_assert!(next <= now && now <= level, "{now} {next}");
        }
    }
}
