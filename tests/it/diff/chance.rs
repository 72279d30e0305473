//! Seeded choices. The same seed makes the same script.

/// splitmix64: small, seeded, good enough to choose with.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn seeded(seed: u64) -> Self {
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
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        (self.next() % sides as u64) as usize
    }

    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }

    pub(super) fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len())].clone()
    }

    /// One of the choices, each as likely as its weight says.
    pub(super) fn weighted<T: Clone>(&mut self, choices: &[(usize, T)]) -> T {
        let mut rest = self.roll(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if rest < *weight {
                return choice.clone();
            }
            rest -= weight;
        }
        unreachable!("the weights add up")
    }
}
