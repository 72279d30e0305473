//! Money: what a model call costs.

use std::{fmt, iter::Sum, ops::Add};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::envelope::TokenUsage;

/// An amount of US dollars, exact to a billionth. In JSON it is a number of dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Cost {
    nanos: u64,
}

const NANOS: f64 = 1e9;

impl Cost {
    pub const ZERO: Self = Self { nanos: 0 };

    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// `None` for an amount that is negative, not finite or above eighteen billion dollars.
    pub fn from_usd(usd: f64) -> Option<Self> {
        let nanos = (usd * NANOS).round();
        // The comparison excludes NaN. The bound is exact, so the conversion is, too.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked by the comparison")]
        (0.0..18e18).contains(&nanos).then_some(Self { nanos: nanos as u64 })
    }

    #[expect(clippy::cast_precision_loss, reason = "exact up to a million dollars")]
    pub fn usd(self) -> f64 {
        self.nanos as f64 / NANOS
    }

    /// One of so many equal shares, rounded down.
    #[must_use]
    pub fn divided(self, shares: u64) -> Self {
        Self { nanos: self.nanos / shares.max(1) }
    }

    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::ZERO, Add::add)
    }
}

/// Dollars with as many decimals as a small amount needs: `$12.50`, `$0.0042`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usd = self.usd();
        match self.nanos {
            0 => f.write_str("$0"),
            nanos if nanos >= 1_000_000_000 => write!(f, "${usd:.2}"),
            nanos if nanos >= 100_000 => write!(f, "${usd:.4}"),
            _ => write!(f, "${usd:.7}"),
        }
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.usd())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        Self::from_usd(usd).ok_or_else(|| D::Error::custom(format!("{usd} is not an amount of US dollars")))
    }
}

/// Prices of a model, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    /// Input that the provider read from its cache; the price of other input if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Input that the provider wrote to its cache; the price of other input if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Prices {
    /// What a call costs. Cached input is part of the input, and reasoning is part of the output.
    pub fn cost(&self, usage: &TokenUsage) -> Cost {
        let cached = usage.cache_read_tokens + usage.cache_write_tokens;
        let lines = [
            (usage.input_tokens.saturating_sub(cached), self.input),
            (usage.cache_read_tokens, self.cache_read.unwrap_or(self.input)),
            (usage.cache_write_tokens, self.cache_write.unwrap_or(self.input)),
            (usage.output_tokens, self.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "numbers of tokens are far below 2^53")]
        let usd: f64 = lines.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum();
        Cost::from_usd(usd).unwrap_or_default()
    }

    /// Whether every price is an amount of money.
    pub fn are_valid(&self) -> bool {
        let prices = [Some(self.input), Some(self.output), self.cache_read, self.cache_write];
        prices.into_iter().flatten().all(|price| Cost::from_usd(price).is_some())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const PRICES: Prices = Prices { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: Some(3.75) };

    #[test]
    fn cached_input_has_its_own_prices() {
        let usage = |input, read, write, output| TokenUsage {
            input_tokens: input,
            cache_read_tokens: read,
            cache_write_tokens: write,
            output_tokens: output,
            ..TokenUsage::default()
        };
        let cases = [
            (usage(1_000_000, 0, 0, 0), 3.0),
            (usage(0, 0, 0, 1_000_000), 15.0),
            (usage(1_000_000, 1_000_000, 0, 0), 0.3),
            (usage(1_000_000, 0, 1_000_000, 0), 3.75),
            (usage(1000, 600, 300, 10), 0.000_3 + 0.000_18 + 0.001_125 + 0.000_15),
        ];
        for (usage, usd) in cases {
            assert_eq!(PRICES.cost(&usage), Cost::from_usd(usd).unwrap(), "{usage:?}");
        }
        let flat = Prices { cache_read: None, cache_write: None, ..PRICES };
        assert_eq!(flat.cost(&usage(1000, 600, 300, 0)), flat.cost(&usage(1000, 0, 0, 0)));
    }

    #[test]
    fn an_amount_is_printed_with_the_decimals_it_needs() {
        let cases = [(0, "$0"), (12_500_000_000, "$12.50"), (4_200_000, "$0.0042"), (1_250, "$0.0000013")];
        for (nanos, text) in cases {
            assert_eq!(Cost::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn an_amount_that_is_no_money_is_refused() {
        for amount in [json!(-1), json!(1e300), json!("1")] {
            assert!(serde_json::from_value::<Cost>(amount.clone()).is_err(), "{amount}");
        }
        assert!(!Prices { input: -1.0, ..PRICES }.are_valid());
        assert!(PRICES.are_valid());
    }

    proptest! {
        #[test]
        fn an_amount_survives_json(nanos in 0_u64..1_000_000_000_000_000) {
            let cost = Cost::from_nanos(nanos);
            let text = serde_json::to_string(&cost).unwrap();
            prop_assert_eq!(serde_json::from_str::<Cost>(&text).unwrap(), cost);
        }
    }
}
