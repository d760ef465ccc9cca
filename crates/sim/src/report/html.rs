//! One HTML file with all in it: no script, nothing fetched.

use super::Picture;
use super::gantt::CLASS_WORDS;
use super::svg::{Axis, Line, bars, escaped, lines, short, strips};
use std::fmt::Write as _;

/// The colours of the policies, apart for most eyes with colour blindness too (Okabe and Ito, 2008).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2433;--soft:#667085;--line:#e4e7ec;--paper:#fff;--card:#f8f9fb}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e8ee;--soft:#98a2b3;--line:#2d3444;--paper:#12161f;\
--card:#1a2030}}\
body{margin:0 auto;max-width:1000px;padding:32px 20px;background:var(--paper);color:var(--ink);\
font:15px/1.5 system-ui,sans-serif}\
h1{font-size:26px;margin:0}h2{font-size:17px;margin:0 0 4px}p{margin:4px 0 12px;color:var(--soft)}\
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px 18px;\
margin:18px 0;overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th{font-weight:600;color:var(--soft);font-size:13px}th:first-child,td:first-child{text-align:left}\
tr:last-child td{border-bottom:0}td.best{font-weight:700}\
svg{width:100%;height:auto;display:block}svg text{font-size:12px;fill:var(--soft)}\
svg .grid{stroke:var(--line)}svg path{fill:none;stroke-width:1.6;stroke-linejoin:round}\
.w0{fill:#9ecae1}.w1{fill:#4292c6}.w2{fill:#e69f00}.w3{fill:#d55e00}\
svg [class^=w]{stroke:var(--card);stroke-width:.4}h3{font-size:14px;margin:12px 0 4px}\
@media(max-width:640px){body{padding:20px 12px}section{padding:14px 12px}svg text{font-size:24px}\
svg path{stroke-width:2.4}td,th{padding:6px 8px}th:first-child,td:first-child{position:sticky;left:-12px;\
background:var(--card)}}\
.key span{display:inline-flex;align-items:center;gap:6px;margin-right:16px}\
svg.dot{width:12px;height:12px}.key i{width:14px;height:3px;border-radius:2px;display:inline-block}";

/// So many users are shown, those who ran most.
const USERS_SHOWN: usize = 15;

/// The page for one trace. Policies are told apart by colour, in the order given.
pub fn page(title: &str, processors: u32, pictures: &[Picture]) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">",
    );
    let _ = write!(page, "<title>{} — muster sim</title><style>{STYLE}", escaped(title));
    for at in 0..pictures.len() {
        let colour = COLOURS[at % COLOURS.len()];
        let _ = write!(page, ".c{at}{{stroke:{colour}}}.b{at},svg .a{at}{{fill:{colour}}}");
    }
    let jobs = pictures.first().map_or(0, |p| p.summary.jobs);
    let users = pictures.first().map_or(0, |p| p.summary.users);
    let _ = write!(
        page,
        "</style></head><body><h1>{}</h1><p>{jobs} jobs of {users} users replayed \
        on {processors} processors, once under each policy.</p>",
        escaped(title)
    );
    page.push_str(&table(pictures));
    let slowdown = |p: &Picture| (p.summary.policy.clone(), p.summary.average_bounded_slowdown);
    let rows: Vec<(String, f64)> = pictures.iter().map(slowdown).collect();
    section(
        &mut page,
        "Mean bounded slowdown",
        "How many times longer a job was there than it \
        ran; runs below ten seconds count as ten. Less is better.",
        "",
        &bars(&rows),
    );
    let key = key(pictures);
    let of = |points: fn(&Picture) -> &Vec<(f64, f64)>, scale: f64| -> Vec<Line<'_>> {
        let line = |p| -> Line<'_> {
            let p: &Picture = p;
            let points = points(p).iter().map(|(x, y)| (*x, y * scale)).collect();
            Line { name: &p.summary.policy, points }
        };
        pictures.iter().map(line).collect()
    };
    let days = (Axis::Days, "days");
    section(
        &mut page,
        "Jobs slowed at least so much",
        "In % of all jobs; the lower the line, the \
        fewer.",
        &key,
        &lines(
            &of(|p| &p.slowed, 100.0),
            (Axis::Decades, "bounded slowdown"),
            (Axis::Even, "% of jobs"),
        ),
    );
    let percent = 100.0 / f64::from(processors.max(1));
    section(
        &mut page,
        "Busy processors",
        "In % of the machine.",
        "",
        &strips(&of(|p| &p.busy, percent), 100.0),
    );
    gantts(&mut page, processors, pictures);
    section(
        &mut page,
        "Waiting",
        "Processors that waiting jobs asked for.",
        &key,
        &lines(&of(|p| &p.waiting, 1.0), days, (Axis::Even, "processors")),
    );
    page.push_str(&users_section(pictures));
    page.push_str(
        "<p>Made by <code>muster sim compare --report</code>. Fairness is Jain's index over \
        the mean bounded slowdown of each user: 1 where all are slowed alike.</p></body></html>\n",
    );
    page
}

/// Two days of each policy, where they can be seen.
fn gantts(page: &mut String, processors: u32, pictures: &[Picture]) {
    let charts: String = pictures
        .iter()
        .filter_map(|picture| {
            let name = &picture.summary.policy;
            let svg = picture.gantt.as_ref()?.svg(name, processors)?;
            Some(format!("<h3>{}</h3>{svg}", escaped(name)))
        })
        .collect();
    if charts.is_empty() {
        return;
    }
    let mut key = String::from("<div class=\"key\">started ");
    for (class, word) in CLASS_WORDS.iter().enumerate() {
        let _ = write!(
            key,
            "<span><svg class=\"dot\" viewBox=\"0 0 10 10\"><rect class=\"w{class}\" \
            width=\"10\" height=\"10\"/></svg>{word}</span>"
        );
    }
    key.push_str("</div>");
    section(
        page,
        "Two busy days",
        "Each job by its processors and its time, from the day on which most was submitted; by \
        how soon it started.",
        &key,
        &charts,
    );
}

fn section(page: &mut String, title: &str, what: &str, key: &str, chart: &str) {
    let _ = write!(page, "<section><h2>{title}</h2><p>{what}</p>{key}{chart}</section>");
}

fn key(pictures: &[Picture]) -> String {
    let mut key = String::from("<div class=\"key\">");
    for (at, picture) in pictures.iter().enumerate() {
        let (colour, name) = (COLOURS[at % COLOURS.len()], escaped(&picture.summary.policy));
        let _ = write!(key, "<span><i style=\"background:{colour}\"></i>{name}</span>");
    }
    key.push_str("</div>");
    key
}

/// The aggregates, the best of each column in bold.
fn table(pictures: &[Picture]) -> String {
    type Column = (&'static str, fn(&Picture) -> f64, bool);
    let mut columns: Vec<Column> = vec![
        ("slowdown", |p| p.summary.average_bounded_slowdown, false),
        ("worst slowdown", |p| p.summary.max_bounded_slowdown, false),
        ("wait, min", |p| p.summary.average_wait_s / 60.0, false),
        ("worst wait, h", |p| p.summary.max_wait_s as f64 / 3600.0, false),
        ("time there, min", |p| p.summary.average_flow_time_s / 60.0, false),
        ("in use, %", |p| p.summary.utilisation * 100.0, true),
        ("fairness", |p| p.summary.jain_fairness_users, true),
    ];
    if pictures.iter().any(|p| p.summary.faults.is_some()) {
        columns.push(("lost, processor h", lost_hours, false));
    }
    let costs = |p: &Picture| p.summary.costs;
    if pictures.iter().filter_map(costs).any(|costs| costs.energy_kwh.is_some()) {
        columns.push(("energy, MWh", energy_mwh, false));
    }
    if pictures.iter().filter_map(costs).any(|costs| costs.total().is_some()) {
        columns.push(("cost", cost, false));
    }
    let mut table = String::from("<section><table><tr><th>policy</th>");
    for (title, _, _) in &columns {
        let _ = write!(table, "<th>{title}</th>");
    }
    table.push_str("</tr>");
    for picture in pictures {
        let _ = write!(table, "<tr><td>{}</td>", escaped(&picture.summary.policy));
        for (_, value, more) in &columns {
            let better = |other: &Picture| match *more {
                true => value(other) > value(picture),
                false => value(other) < value(picture),
            };
            let best = pictures.len() > 1 && !pictures.iter().any(better);
            let class = if best { " class=\"best\"" } else { "" };
            let _ = write!(table, "<td{class}>{}</td>", short(value(picture)));
        }
        table.push_str("</tr>");
    }
    table.push_str("</table></section>");
    table
}

fn lost_hours(picture: &Picture) -> f64 {
    picture.summary.faults.map_or(0.0, |faults| faults.lost_processor_hours)
}

fn energy_mwh(picture: &Picture) -> f64 {
    picture.summary.costs.and_then(|costs| costs.energy_kwh).unwrap_or(0.0) / 1000.0
}

fn cost(picture: &Picture) -> f64 {
    picture.summary.costs.and_then(|costs| costs.total()).unwrap_or(0.0)
}

/// How the jobs of those were slowed who ran most, under each policy.
fn users_section(pictures: &[Picture]) -> String {
    let Some(first) = pictures.first().filter(|first| first.summary.users > 1) else {
        return String::new();
    };
    let mut table = format!(
        "<section><h2>Users</h2><p>Those who ran most, of {}: the mean bounded slowdown of their \
        jobs under each policy.</p><table><tr><th>user</th><th>jobs</th>\
        <th>processor hours</th>",
        first.summary.users
    );
    for picture in pictures {
        let _ = write!(table, "<th>{}</th>", escaped(&picture.summary.policy));
    }
    table.push_str("</tr>");
    for user in first.users.iter().take(USERS_SHOWN) {
        let (id, jobs, hours) = (user.user, user.jobs, short(user.processor_hours));
        let _ = write!(table, "<tr><td>{id}</td><td>{jobs}</td><td>{hours}</td>");
        for picture in pictures {
            let same = picture.users.iter().find(|other| other.user == user.user);
            let slowed = same.map_or(0.0, |same| same.average_bounded_slowdown);
            let _ = write!(table, "<td>{}</td>", short(slowed));
        }
        table.push_str("</tr>");
    }
    table.push_str("</table></section>");
    table
}
