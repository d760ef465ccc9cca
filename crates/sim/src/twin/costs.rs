//! What a replay would draw from the wall and cost, where somebody says what a processor does.

use super::Summary;
use serde::Serialize;

/// What a processor draws and costs. A price is in any currency: costs are in the same. What is not
/// given is not worked out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// What a processor draws while a job has it, watts.
    pub busy_watts: Option<f64>,
    /// What an idle one draws, watts; none is given: nothing.
    pub idle_watts: Option<f64>,
    /// The price of a kilowatt hour.
    pub price_kwh: Option<f64>,
    /// The price of an hour of a processor that a job has.
    pub price_hour: Option<f64>,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Processor hours that jobs had, in vain too; GPU hours, where a processor is a GPU.
    pub busy_processor_hours: f64,
    /// Processor hours that were there and nobody had, from the first submission to the last end.
    pub idle_processor_hours: f64,
    /// Energy, kilowatt hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_kwh: Option<f64>,
    /// What the energy costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_cost: Option<f64>,
    /// What the hours cost that jobs had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_cost: Option<f64>,
}

impl Costs {
    /// Energy and hours together, where either has a price.
    pub fn total(&self) -> Option<f64> {
        match (self.energy_cost, self.processor_cost) {
            (None, None) => None,
            (energy, hours) => Some(energy.unwrap_or(0.0) + hours.unwrap_or(0.0)),
        }
    }
}

impl Rates {
    /// The costs of a replay on a machine of so many processors; `None` where no rate is given.
    pub fn costs(&self, summary: &Summary, processors: u32) -> Option<Costs> {
        if self.busy_watts.is_none() && self.idle_watts.is_none() && self.price_hour.is_none() {
            return None;
        }
        let there = f64::from(processors) * summary.makespan_s as f64 / 3600.0;
        let (lost, down) = summary.faults.map_or((0.0, 0.0), |faults| {
            (faults.lost_processor_hours, faults.down_processor_hours)
        });
        let busy = summary.utilisation * there + lost;
        let idle = (there - busy - down).max(0.0);
        let draws = self.busy_watts.is_some() || self.idle_watts.is_some();
        let watts = |watts: Option<f64>| watts.unwrap_or(0.0);
        let energy_kwh =
            draws.then(|| (busy * watts(self.busy_watts) + idle * watts(self.idle_watts)) / 1000.0);
        Some(Costs {
            busy_processor_hours: busy,
            idle_processor_hours: idle,
            energy_kwh,
            energy_cost: energy_kwh.zip(self.price_kwh).map(|(energy, price)| energy * price),
            processor_cost: self.price_hour.map(|price| busy * price),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SwfJob;
    use crate::twin::{FaultCounts, Finished, Totals};

    /// Two processors for ten hours; one job has one of them for four, after an hour.
    fn summary() -> Summary {
        let mut totals = Totals::default();
        let job = |submit, run, requested| SwfJob { submit, run, requested, ..SwfJob::default() };
        totals.add(&Finished::once(job(0, 4 * 3600, 1), 3600));
        totals.add(&Finished::once(job(0, 3600, 2), 9 * 3600));
        totals.summary("easy", 2)
    }

    #[test]
    fn what_is_not_given_is_not_told() {
        assert_eq!(Rates::default().costs(&summary(), 2), None);
        let price_kwh = Some(0.3);
        assert_eq!(Rates { price_kwh, ..Rates::default() }.costs(&summary(), 2), None);
        let rates = Rates { price_hour: Some(2.0), ..Rates::default() };
        let costs = rates.costs(&summary(), 2).unwrap();
        assert_eq!((costs.energy_kwh, costs.energy_cost), (None, None));
        assert!((costs.processor_cost.unwrap() - 12.0).abs() < 1e-9);
    }

    #[test]
    fn busy_and_idle_hours_draw_their_watts() {
        let rates = Rates {
            busy_watts: Some(500.0),
            idle_watts: Some(100.0),
            price_kwh: Some(0.25),
            price_hour: None,
        };
        let costs = rates.costs(&summary(), 2).unwrap();
        assert!((costs.busy_processor_hours - 6.0).abs() < 1e-9);
        assert!((costs.idle_processor_hours - 14.0).abs() < 1e-9);
        assert!((costs.energy_kwh.unwrap() - 4.4).abs() < 1e-9);
        assert!((costs.energy_cost.unwrap() - 1.1).abs() < 1e-9);
    }

    #[test]
    fn what_ran_in_vain_drew_too_and_what_was_down_did_not() {
        let faults = FaultCounts {
            lost_processor_hours: 2.0,
            down_processor_hours: 5.0,
            ..FaultCounts::default()
        };
        let summary = Summary { faults: Some(faults), ..summary() };
        let rates = Rates { idle_watts: Some(1000.0), ..Rates::default() };
        let costs = rates.costs(&summary, 2).unwrap();
        assert!((costs.busy_processor_hours - 8.0).abs() < 1e-9);
        assert!((costs.energy_kwh.unwrap() - 7.0).abs() < 1e-9);
    }
}
