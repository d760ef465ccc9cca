//! The daemon from its start to its end.

use crate::accept;
use crate::alarms::Alarms;
use crate::app::App;
use crate::engines::{Engines, offered};
use crate::error::DaemonError;
use crate::http::router::router;
use crate::identity::{self, Names};
use crate::listen;
use crate::reasons::Reasons;
use crate::setup::Setup;
use crate::site;
use crate::wait::{Waiters, wake_waiters};
use arc_swap::ArcSwap;
use jiff::tz::TimeZone;
use muster_control::command::Command;
use muster_control::{Controller, Handle, Parts, Settings, SystemClock, spawn};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::IsTerminal as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

/// Threads that serve requests.
const WORKERS: usize = 2;

/// Threads for what takes a while: long listings, history, names.
const BLOCKING_MAX: usize = 16;

/// Runs a daemon until it is told to stop. `ready` is called once it answers.
///
/// # Errors
/// Why it could not start, or how it ended.
pub(crate) fn run(setup: Setup, ready: impl FnOnce()) -> Result<(), DaemonError> {
    make_state_dir(&setup.state_dir)?;
    listen::nobody_answers(&setup.socket)?;
    let store = crate::stores::open(&setup.state_dir)?;
    let engines = Engines::start(&setup)?;
    crate::practice::note(&setup)?;
    // After the engine: what starts jobs keeps the limits that this process was given.
    raise_descriptor_limit();
    let alarms = Arc::new(Alarms::new(&setup.state_dir));
    let raise = Arc::clone(&alarms);
    let settings = Settings {
        commands_max: setup.config.daemon.commands_max as usize,
        alarm: Arc::new(move |alarm| raise.raise(&alarm)),
        ..Settings::default()
    };
    let parts = Parts {
        store,
        planner: Box::new(muster_control::StandardPlanner::default()),
        checker: Arc::new(muster_control::StandardChecker),
        engines: engines.all(),
        clock: Arc::new(SystemClock),
    };
    let controller = spawn(parts, settings)?;
    let handle = controller.handle();
    let outcome = configure(&handle, &setup, &engines)
        .and_then(|()| serve(setup, &handle, engines, alarms, ready));
    let stopped = stop(controller);
    outcome.and(stopped)
}

fn stop(controller: Controller) -> Result<(), DaemonError> {
    tracing::info!("stopping; jobs go on");
    controller.stop()?;
    tracing::info!("stopped");
    Ok(())
}

pub(crate) fn make_state_dir(dir: &Path) -> Result<(), DaemonError> {
    // Users pass through to the directories of their own jobs where root runs the daemon.
    let mode = if nix::unistd::geteuid().is_root() { 0o711 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(dir);
    made.map_err(|source| DaemonError::Path { path: dir.to_owned(), source })
}

/// A connection is a descriptor, and the usual soft limit is too low for many clients.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Takes over the configuration: what differs from the stored state becomes events.
fn configure(handle: &Handle, setup: &Setup, engines: &Engines) -> Result<(), DaemonError> {
    let nodes = engines.nodes()?;
    let offered = offered(&engines.others, &setup.config, &handle.state());
    let offered = offered.map_err(DaemonError::Site)?;
    let nodes: Vec<&muster_model::Node> = nodes.iter().collect();
    let site = site::site(&setup.config, &nodes, offered).map_err(DaemonError::Config)?;
    let site = muster_control::command::Site { starting: true, ..site };
    let reply = handle.call(identity::daemon(), Command::Configure(Box::new(site)));
    reply.map(drop).map_err(|error| DaemonError::Site(error.to_string()))
}

fn serve(
    setup: Setup,
    handle: &Handle,
    engines: Engines,
    alarms: Arc<Alarms>,
    ready: impl FnOnce(),
) -> Result<(), DaemonError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_MAX)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(DaemonError::system("starting threads"))?;
    let (stop, stopped) = watch::channel(false);
    let (seq_in, seq) = watch::channel(0_u64);
    handle.on_change(move |newest| {
        seq_in.send_replace(newest);
    });
    let watches = Arc::new(crate::watch::Watch::new(engines.local.instance(), &setup.state_dir));
    let hook = setup.config.daemon.report_webhook.clone();
    let started = crate::watch::endings::start(handle.clone(), Arc::clone(&watches), hook);
    started.map_err(DaemonError::system("starting the thread of endings"))?;
    let mail = crate::mail::program(setup.config.daemon.mail_program.as_ref());
    if let Some(program) = &mail {
        let started = crate::mail::start(handle.clone(), Arc::clone(&watches), program.clone());
        started.map_err(DaemonError::system("starting the mail thread"))?;
    }
    let socket = setup.socket.clone();
    let app = Arc::new(App {
        sends_mail: mail.is_some(),
        handle: handle.clone(),
        admins: ArcSwap::from_pointee(setup.config.daemon.admins.clone()),
        requests: Semaphore::new(setup.config.daemon.requests_max as usize),
        config: ArcSwap::from_pointee(setup.config),
        source: setup.source,
        overrides: setup.overrides,
        state_dir: setup.state_dir,
        names: Names::default(),
        measured: crate::measured::Measured::default(),
        reasons: Reasons::default(),
        watch: watches,
        waiters: Waiters::default(),
        seq: seq.clone(),
        stop,
        started: App::now(),
        zone: TimeZone::system(),
        uid: nix::unistd::geteuid().as_raw(),
        alarms,
        notes: engines.local.enforcement().notes.clone(),
        others: engines.others,
    });
    let kept = Arc::clone(&app);
    let served = runtime.block_on(async {
        let listener = listen::bind(&socket)?;
        tokio::spawn(wake_waiters(WaitersOf(Arc::clone(&app)), handle.clone(), seq));
        tokio::spawn(stop_on_signals(Arc::clone(&app)));
        tokio::spawn(reload_on_hangup(Arc::clone(&app)));
        tokio::spawn(crate::standing::keep(Arc::clone(&app)));
        tokio::spawn(crate::watch::keep(Arc::clone(&app)));
        tokio::spawn(crate::watch::history::keep(Arc::clone(&app)));
        tokio::spawn(crate::watch::health::keep(Arc::clone(&app)));
        tokio::spawn(crate::watch::saturation::keep(Arc::clone(&app)));
        crate::watch::otlp::start(&app);
        tracing::info!(socket = %socket.display(), "listening");
        ready();
        accept::serve(listener, Arc::clone(&app), router(Arc::clone(&app)), stopped).await;
        Ok(())
    });
    listen::remove(&socket);
    kept.watch.keep_running(&kept.handle.state());
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    served
}

struct WaitersOf(Arc<App>);

impl AsRef<Waiters> for WaitersOf {
    fn as_ref(&self) -> &Waiters {
        &self.0.waiters
    }
}

/// SIGHUP reloads the configuration, as `POST /v1/config/reload` does. For a daemon at a terminal it
/// means that the terminal is gone, and ends it as before.
async fn reload_on_hangup(app: Arc<App>) {
    if std::io::stdin().is_terminal() {
        return;
    }
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        tracing::error!("SIGHUP cannot be taken");
        return;
    };
    while hangup.recv().await.is_some() {
        match crate::http::admin::take_over(&app, &identity::daemon()).await {
            Ok(done) => {
                let needed = done.restart_needed.join(", ");
                tracing::info!(changes = done.changes.len(), restart_needed = needed, "reloaded");
                for refused in &done.refused {
                    tracing::warn!("{refused}");
                }
            }
            Err(refusal) => tracing::error!("not reloaded: {}", refusal.error),
        }
    }
}

/// SIGTERM and SIGINT end the daemon.
async fn stop_on_signals(app: Arc<App>) {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be taken");
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("told to stop by a signal");
    app.stop.send_replace(true);
}
