//! `cargo xtask web [shots]`: the page, built where Node is, and pictures of it.
//!
//! The crate `web` takes `web/dist` in when it is built; an empty one means the plain page.

mod scene;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::args::Args;
use crate::stage::{Outcome, Report, Skip};
use crate::{demo, need, root, sh};

use scene::Scene;

/// `cargo xtask web [shots]`.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    let shots = words.first().is_some_and(|word| word == "shots");
    Args::new(&words[usize::from(shots)..]).finish()?;
    tools().map_err(|skip| skip.reason)?;
    build()?;
    if !shots {
        println!("web/dist is built; the next `cargo build` takes it in");
        return Ok(());
    }
    let chromium = need::find("chromium", "")?;
    let out = root::target().join("web-shots");
    let mut scene = Scene::start(&demo::build()?)?;
    let url = scene.page(&[])?;
    let mut node = node("browser/shots.mjs");
    node.args(["--url", &url, "--out"]).arg(&out).arg("--chromium").arg(&chromium.path);
    node.args(["--job", &scene.running, "--why", &scene.waiting]);
    let taken = sh::run(&mut node);
    scene.stop()?;
    taken
}

/// Builds the page for what comes next, where Node is and the page is older than its sources; what
/// keeps it from that is said, and the plain page serves.
pub(crate) fn build_where_possible() {
    if !is_stale() {
        return;
    }
    let done = need::find("node", need::minimum("node"))
        .and_then(|_| need::find("npm", ""))
        .and_then(|_| build());
    if let Err(reason) = done {
        println!("`muster web` will have its plain page: {reason}");
    }
}

/// The stage of `cargo xtask test`.
pub(crate) fn checks(report: &mut Report) {
    report.check("node and npm", || Ok(tools()?));
    report.check("the page", || {
        tools()?;
        install()?;
        for script in ["licences", "types", "check", "test", "build"] {
            npm(&["run", "--silent", script])?;
        }
        Ok(String::new())
    });
    report.check("in a browser", browser);
}

/// Node and npm, from Debian where they are not there.
fn tools() -> Result<String, Skip> {
    let node = need::need("nodejs", "node", need::minimum("node"))?;
    need::need("npm", "npm", "")?;
    Ok(node.version)
}

fn browser() -> Outcome {
    tools()?;
    let chromium = need::need("chromium", "chromium", "")?;
    let binary = demo::build()?;
    let mut scene = Scene::start(&binary)?;
    let shows = scene.page(&[])?;
    let acts = scene.page(&["--act"])?;
    let mut node = scene.dress(node("browser/test.mjs"));
    node.args(["--url", &shows, "--act-url", &acts, "--muster"]).arg(&binary);
    node.arg("--chromium").arg(&chromium.path);
    let tested = sh::run(&mut sh::bounded(node, LIMIT_S));
    scene.stop()?;
    tested?;
    Ok(String::new())
}

const LIMIT_S: u32 = 600;

/// Builds the page from what is there.
fn build() -> Result<(), String> {
    install()?;
    npm(&["run", "--silent", "types"])?;
    npm(&["run", "--silent", "build"])
}

/// Takes in what `package-lock.json` names, where it changed since.
fn install() -> Result<(), String> {
    let lock = dir().join("package-lock.json");
    let there = dir().join("node_modules/.package-lock.json");
    if changed(&there) >= changed(&lock) && there.is_file() {
        return Ok(());
    }
    npm(&["ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"])
}

fn npm(args: &[&str]) -> Result<(), String> {
    let mut npm = sh::command("npm");
    npm.args(args).current_dir(dir());
    sh::run(&mut sh::bounded(npm, LIMIT_S))
}

fn node(script: &str) -> std::process::Command {
    let mut node = sh::command("node");
    node.arg(script).current_dir(dir());
    node
}

fn dir() -> PathBuf {
    root::dir().join("web")
}

/// True where a source is newer than the page, or there is none.
fn is_stale() -> bool {
    let built = changed(&dir().join("dist/index.html"));
    let single = ["index.html", "package-lock.json", "vite.config.ts", "../docs/openapi.json"];
    let newest = single.iter().map(|name| changed(&dir().join(name))).max();
    newest.max(newest_below(&dir().join("src"))) > Some(built)
}

fn newest_below(dir: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let times = entries.filter(|entry| entry.file_name() != "schema.d.ts").filter_map(|entry| {
        let path = entry.path();
        if path.is_dir() { newest_below(&path) } else { Some(changed(&path)) }
    });
    times.max()
}

/// When a file was changed; the beginning of time where it is not there.
fn changed(path: &Path) -> SystemTime {
    path.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
