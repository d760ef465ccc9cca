//! A job's course as lines of graphs.

use super::Watch;
use crate::app::App;
use muster_api::{LineView, SeriesView};
use muster_diagnosis::{Course, Line};
use muster_model::Job;

impl Watch {
    /// What a job's last attempt did over time; nothing of a job that nobody looked at.
    pub(crate) fn series(&self, job: &Job) -> SeriesView {
        let seen = self.watched(job).map(|watched| watched.series);
        seen.unwrap_or_else(|| SeriesView { id: job.id.0, ..SeriesView::default() })
    }
}

/// The lines of a course, where the clock of its samples shows `now`.
pub(super) fn of(job: &Job, course: &Course, now: f64) -> SeriesView {
    let ago_ms = course.first().map_or(0.0, |first| (now - first) * 1e3) as i64;
    let known = |line: Line| {
        let values: Vec<Option<f64>> =
            course.line(line).into_iter().map(|value| value.map(short)).collect();
        values.iter().any(Option::is_some).then(|| LineView {
            name: line.name().to_owned(),
            unit: line.unit().to_owned(),
            values,
        })
    };
    SeriesView {
        id: job.id.0,
        from_ms: App::now().millis().saturating_sub(ago_ms),
        step_ms: (course.step() * 1e3) as u64,
        lines: Line::ALL.into_iter().filter_map(known).collect(),
    }
}

/// The course that lines tell of, where the clock of the samples to come shows `now`.
pub(super) fn resumed(series: &SeriesView, now: f64) -> Course {
    let ago_ms = App::now().millis().saturating_sub(series.from_ms);
    let lines: Vec<(Line, Vec<Option<f64>>)> = Line::ALL
        .into_iter()
        .filter_map(|line| {
            let told = series.lines.iter().find(|told| told.name == line.name())?;
            Some((line, told.values.clone()))
        })
        .collect();
    // One that begins in the future was told by a clock that was set back since.
    match ago_ms >= 0 {
        true => Course::resume(now - ago_ms as f64 / 1e3, series.step_ms as f64 / 1e3, &lines),
        false => Course::default(),
    }
}

/// Four digits say enough on a graph, and keep what is sent and stored small.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 { (value * scale).round() / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{of, resumed, short};
    use muster_api::{LineView, SeriesView};
    use muster_diagnosis::{Course, Sample};
    use muster_model::Job;

    #[test]
    fn four_digits_stay() {
        for (value, kept) in
            [(0.0, "0"), (123_456.0, "123500"), (0.123_456, "0.1235"), (f64::NAN, "0")]
        {
            assert_eq!(short(value).to_string(), kept);
        }
    }

    #[test]
    fn a_graph_from_the_future_is_none() {
        let line = LineView {
            name: "cpu".to_owned(),
            unit: "cpus".to_owned(),
            values: vec![Some(1.0), Some(2.0)],
        };
        let now_ms = crate::app::App::now().millis();
        let told =
            |from_ms| SeriesView { id: 7, from_ms, step_ms: 30_000, lines: vec![line.clone()] };
        assert_eq!(resumed(&told(now_ms - 60_000), 5.0).step() as u32, 30);
        // The clock was set back since.
        assert_eq!(resumed(&told(now_ms + 3_600_000), 5.0), Course::default());
    }

    #[test]
    fn lines_that_nobody_knows_are_left_out() {
        let mut course = Course::default();
        for at in [10.0, 12.0, 14.0] {
            course.add(&Sample { at, cpu_seconds: Some(3.0 * at), ..Sample::default() });
        }
        let job = serde_json::json!({
            "id": 7, "spec": {"owner": {"uid": 1, "gid": 1, "user": "a"}}, "submitted": 0,
            "state": "running", "time_limit": "unlimited",
        });
        let job: Job = serde_json::from_value(job).expect("a job");
        let series = of(&job, &course, 20.0);
        assert_eq!((series.id, series.step_ms, series.lines.len()), (7, 2_000, 1));
        let line = &series.lines[0];
        assert_eq!((line.name.as_str(), line.unit.as_str()), ("cpu", "cpus"));
        assert_eq!(line.values, [Some(3.0), Some(3.0)]);
        // It began ten seconds ago.
        assert!(crate::app::App::now().millis() - series.from_ms < 60_000);
    }
}
