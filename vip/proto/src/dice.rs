//! Numbers drawn from a seed, which spread what would else happen at once.

/// Numbers that need not be secret, only different: SplitMix64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ mixed >> 31) >> 32).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The upper halves of the generator's published numbers for this seed.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut dice = Dice::new(1_234_567);
        let numbers = [
            6_457_827_717_110_365_317_u64,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for number in numbers {
            assert_eq!(u64::from(dice.roll()), number >> 32);
        }
        // Its two ends have a bit in common, which the last step takes out.
        let first = Dice::new(1).roll();
        assert_eq!(u64::from(first), 10_451_216_379_200_822_465_u64 >> 32);
    }
}
