//! Percentiles and ratios.

/// Measured values; smaller is better.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a value.
    pub fn push(&mut self, value: f64) {
        let at = self
            .0
            .partition_point(|known| known.total_cmp(&value).is_lt());
        self.0.insert(at, value);
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest value that `percent` of the values do not exceed (nearest rank); 0 of none.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> f64 {
        let count = u64::try_from(self.0.len()).unwrap_or(u64::MAX);
        let rank = count.saturating_mul(percent.into()).div_ceil(100).max(1);
        let index = usize::try_from(rank - 1).unwrap_or(usize::MAX);
        self.0.get(index).or(self.0.last()).copied().unwrap_or(0.0)
    }

    /// Half of the values are no larger.
    #[must_use]
    pub fn p50(&self) -> f64 {
        self.percentile(50)
    }

    /// 99 of 100 values are no larger.
    #[must_use]
    pub fn p99(&self) -> f64 {
        self.percentile(99)
    }

    /// The smallest value; 0 of none.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.percentile(0)
    }

    /// The largest value; 0 of none.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut samples = Self::default();
        values.into_iter().for_each(|value| samples.push(value));
        samples
    }
}

/// How many times better `ours` is than `theirs`, where what is smaller than `resolution` counts
/// as `resolution`: a probe per millisecond cannot tell 0 from 0.9 ms.
#[must_use]
pub(super) fn ratio(ours: f64, theirs: f64, resolution: f64) -> f64 {
    theirs.max(resolution) / ours.max(resolution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        values.iter().copied().collect()
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let odd = samples(&[3.0, 1.0, 2.0]);
        assert_eq!(
            (odd.p50(), odd.p99(), odd.max(), odd.len()),
            (2.0, 3.0, 3.0, 3)
        );
        let even = samples(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(even.p50(), 2.0);
        let hundred = samples(&(1..=100).map(f64::from).collect::<Vec<_>>());
        assert_eq!(
            (hundred.p50(), hundred.p99(), hundred.max()),
            (50.0, 99.0, 100.0)
        );
        assert_eq!(samples(&[7.0]).p99(), 7.0);
        assert_eq!(samples(&[]).p50(), 0.0);
    }

    #[test]
    fn above_one_means_ahead_and_nothing_is_infinitely_ahead() {
        assert!((ratio(0.25, 0.5, 0.001) - 2.0).abs() < 1e-9);
        assert!((ratio(0.0, 0.05, 0.001) - 50.0).abs() < 1e-9);
        assert!((ratio(0.0, 0.0, 0.001) - 1.0).abs() < 1e-9);
        assert!(ratio(0.6, 0.3, 0.001) < 1.0);
    }
}
