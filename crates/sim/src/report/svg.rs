//! Charts in SVG: lines and bars, as little as they need.

use std::fmt::Write as _;

/// A chart's size, and the room around its plot.
pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 260.0;
pub(super) const LEFT: f64 = 70.0;
pub(super) const RIGHT: f64 = 30.0;
pub(super) const TOP: f64 = 22.0;
pub(super) const BOTTOM: f64 = 52.0;

/// How an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    /// From nought, evenly.
    Even,
    /// Days, evenly, of values in seconds.
    Days,
    /// By factors of ten.
    Decades,
}

/// A line with its name.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines over one another; the class `c0`, `c1`, … gives each its colour.
pub(super) fn lines(lines: &[Line<'_>], x: (Axis, &str), y: (Axis, &str)) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (x0, x1) = bounds(x.0, all().map(|point| point.0));
    let (y0, y1) = bounds(y.0, all().map(|point| point.1));
    let at_x = |value| LEFT + place(x.0, value, x0, x1) * (WIDTH - LEFT - RIGHT);
    let at_y = |value| HEIGHT - BOTTOM - place(y.0, value, y0, y1) * (HEIGHT - TOP - BOTTOM);
    let mut svg = open(&format!("{} over {}", y.1, x.1));
    for (value, label) in ticks(y.0, y0, y1) {
        let at = at_y(value);
        let end = WIDTH - RIGHT;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{at:.1}\" \
            y2=\"{at:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for (value, label) in ticks(x.0, x0, x1) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            at_x(value),
            HEIGHT - BOTTOM + 20.0
        );
    }
    let _ = write!(
        svg,
        "<text class=\"unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        HEIGHT - 4.0,
        escaped(x.1)
    );
    for (at, line) in lines.iter().enumerate() {
        let mut path = String::new();
        for (n, point) in line.points.iter().enumerate() {
            let letter = if n == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", at_x(point.0), at_y(point.1));
        }
        let _ = write!(
            svg,
            "<path class=\"c{at}\" d=\"{path}\"><title>{}</title></path>",
            escaped(line.name)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// One over time for each, filled, in strips of their own over one axis of days.
pub(super) fn strips(lines: &[Line<'_>], most: f64) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (x0, x1) = bounds(Axis::Days, all().map(|point| point.0));
    let (tall, name) = (64.0, 32.0);
    let step = tall + name + 8.0;
    let height = step * lines.len() as f64 + 40.0;
    let at_x = |value| LEFT + place(Axis::Days, value, x0, x1) * (WIDTH - LEFT - RIGHT);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for (at, line) in lines.iter().enumerate() {
        let floor = step * at as f64 + name + tall;
        let at_y = |value: f64| floor - (value / most).clamp(0.0, 1.0) * tall;
        let mut path = String::new();
        for (n, point) in line.points.iter().enumerate() {
            let x = at_x(point.0);
            if n == 0 {
                let _ = write!(path, "M{x:.1} {floor:.1}");
            }
            let _ = write!(path, "L{x:.1} {:.1}", at_y(point.1));
        }
        let end = line.points.last().map_or(LEFT, |point| at_x(point.0));
        let (right, label) = (WIDTH - RIGHT, LEFT - 6.0);
        let _ = write!(
            svg,
            "<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>\
            <line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{floor}\" y2=\"{floor}\"/>\
            <line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
            <text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
            <path class=\"a{at}\" d=\"{path}L{end:.1} {floor:.1}Z\"/>",
            floor - tall - 6.0,
            escaped(line.name),
            floor - tall,
            floor - tall,
            floor - tall + 10.0,
            short(most),
        );
    }
    for (value, label) in ticks(Axis::Days, x0, x1) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            at_x(value),
            height - 20.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">days</text></svg>",
        WIDTH - RIGHT,
        height - 2.0
    );
    svg
}

/// Bars with a name and a value each, the longest as wide as there is room.
pub(super) fn bars(rows: &[(String, f64)]) -> String {
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let step = 30.0;
    let height = step * rows.len() as f64 + 8.0;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for (at, (name, value)) in rows.iter().enumerate() {
        let y = at as f64 * step + 6.0;
        let wide = (WIDTH - 320.0) * value / most;
        let _ = write!(
            svg,
            "<text x=\"180\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
            <rect class=\"b{at}\" x=\"188\" y=\"{y}\" width=\"{wide:.1}\" height=\"20\" rx=\"3\"/>\
            <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            y + 15.0,
            escaped(name),
            196.0 + wide,
            y + 15.0,
            short(*value)
        );
    }
    svg.push_str("</svg>");
    svg
}

pub(super) fn open(title: &str) -> String {
    let title = escaped(title);
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{title}</title>")
}

/// Text as it stands in a page.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A number in few digits.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 && (value / 1e6).fract() < 1e-9 => format!("{:.0}M", value / 1e6),
        size if size >= 1e6 => format!("{:.1}M", value / 1e6),
        size if size >= 1e4 => format!("{:.0}k", value / 1e3),
        size if size >= 100.0 || value.fract().abs() < 1e-9 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn bounds(axis: Axis, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let least = if axis == Axis::Decades { 1e-6 } else { f64::NEG_INFINITY };
    let (low, high) = values
        .filter(|value| value.is_finite() && *value > least)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return (0.0, 1.0);
    }
    let low = if axis == Axis::Even { low.min(0.0) } else { low };
    (low, if high > low { high } else { low + 1.0 })
}

/// Where a value lies between the bounds, from 0 to 1.
fn place(axis: Axis, value: f64, low: f64, high: f64) -> f64 {
    let part = match axis {
        Axis::Decades => (value.max(low) / low).log10() / (high / low).log10(),
        Axis::Even | Axis::Days => (value - low) / (high - low),
    };
    part.clamp(0.0, 1.0)
}

fn ticks(axis: Axis, low: f64, high: f64) -> Vec<(f64, String)> {
    match axis {
        Axis::Decades => {
            let (first, last) = (low.log10().ceil() as i32, high.log10().floor() as i32);
            (first..=last).map(|n| (10f64.powi(n), short(10f64.powi(n)))).collect()
        }
        Axis::Even => even(low, high).map(|value| (value, short(value))).collect(),
        Axis::Days => {
            let days = 86_400.0;
            let label = |value: f64| (low + value * days, short(value));
            even(0.0, (high - low) / days).map(label).collect()
        }
    }
}

/// From four to nine round values.
fn even(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil();
    (0..16).map(move |n| (first + f64::from(n)) * step).take_while(move |value| *value <= high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers_and_text_cannot_break_out() {
        assert_eq!(even(0.0, 100.0).collect::<Vec<_>>(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let labels = ticks(Axis::Decades, 1.0, 1000.0).into_iter().map(|t| t.1);
        assert_eq!(labels.collect::<Vec<_>>(), ["1", "10", "100", "1000"]);
        let line = Line { name: "</svg><script>", points: vec![(0.0, 1.0), (5.0, 2.0)] };
        let svg = lines(&[line], (Axis::Even, "x"), (Axis::Even, "y"));
        assert!(svg.contains("&lt;/svg&gt;&lt;script&gt;") && !svg.contains("<script"));
        assert!(!lines(&[], (Axis::Days, "x"), (Axis::Even, "y")).contains("NaN"));
    }
}
