//! Random numbers of the shapes that models of workloads are made of.

use crate::draw::Draw;
use std::f64::consts::TAU;

impl Draw {
    /// With a mean of one, forgetful.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// With a mean of nought and a deviation of one (Box and Muller, 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let (radius, angle) = ((2.0 * self.exponential()).sqrt(), TAU * self.unit());
        radius * angle.cos()
    }

    /// Gamma with a shape of at least one and a scale (Marsaglia and Tsang, TOMS 2000).
    pub(super) fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        let third = shape - 1.0 / 3.0;
        let narrow = 1.0 / (9.0 * third).sqrt();
        loop {
            let normal = self.normal();
            let cube = (1.0 + narrow * normal).powi(3);
            if cube > 0.0 {
                let bound = 0.5 * normal * normal + third - third * cube + third * cube.ln();
                if -self.exponential() < bound {
                    return third * cube * scale;
                }
            }
        }
    }

    /// Evenly between two bounds.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// At least `least`, with a tail that falls by the power `tail` (Pareto).
    pub(super) fn pareto(&mut self, least: f64, tail: f64) -> f64 {
        least / (1.0 - self.unit()).powf(1.0 / tail)
    }

    /// One of several by their weights.
    pub(super) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let past = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        past.unwrap_or(weights.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_variance(mut of: impl FnMut(&mut Draw) -> f64) -> (f64, f64) {
        const COUNT: usize = 100_000;
        let mut draw = Draw::new(5);
        let all: Vec<f64> = (0..COUNT).map(|_| of(&mut draw)).collect();
        let mean = all.iter().sum::<f64>() / COUNT as f64;
        (mean, all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / COUNT as f64)
    }

    #[test]
    fn means_and_variances_are_those_of_the_shapes() {
        let near = |(mean, variance): (f64, f64), wanted: (f64, f64)| {
            assert!((mean - wanted.0).abs() < 0.02 * (1.0 + wanted.0), "{mean} {wanted:?}");
            assert!((variance - wanted.1).abs() < 0.05 * wanted.1, "{variance} {wanted:?}");
        };
        near(mean_and_variance(Draw::exponential), (1.0, 1.0));
        near(mean_and_variance(Draw::normal), (0.0, 1.0));
        near(mean_and_variance(|draw| draw.gamma(4.2, 0.94)), (4.2 * 0.94, 4.2 * 0.94 * 0.94));
        near(mean_and_variance(|draw| draw.gamma(312.0, 0.03)), (9.36, 312.0 * 0.0009));
        near(mean_and_variance(|draw| draw.pareto(2.0, 6.0)), (2.4, 0.24));
        let thirds = |draw: &mut Draw| draw.weighted(&[1.0, 2.0]) as f64;
        near(mean_and_variance(thirds), (2.0 / 3.0, 2.0 / 9.0));
    }
}
