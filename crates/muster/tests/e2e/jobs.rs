//! Jobs from submission to their end, through the real binary.

use crate::place::{Place, job, said, until};
use muster_api::{Action, ActionRequest, HistoryQuery, QueueQuery};
use muster_model::JobState;

#[test]
fn jobs_end_with_their_exit_codes_and_output() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    let cases = [("true", 0, JobState::Completed), ("echo out; exit 3", 3, JobState::Failed)];
    for (body, code, state) in cases {
        let id = place.submit(body, &[]).job_id;
        let end = client.wait_over(&job(id)).unwrap();
        let exit = end.jobs[0].exit.unwrap();
        assert_eq!((exit.code, end.jobs[0].state), (code, state), "{body}");
    }
    assert_eq!(std::fs::read_to_string(place.path("slurm-2.out")).unwrap(), "out\n");
}

#[test]
fn a_script_that_kills_itself_ends_with_the_signal() {
    let place = Place::new();
    let _daemon = place.start();
    let id = place.submit("kill -KILL $$", &[]).job_id;
    let end = place.client().wait_over(&job(id)).unwrap();
    assert_eq!(end.jobs[0].exit.unwrap().signal, 9);
}

#[test]
fn running_jobs_survive_a_restart_of_the_daemon_and_their_ends_are_found() {
    let place = Place::new();
    let daemon = place.start();
    let fifo = place.path("go");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let during = place.submit("read x < go; echo went on; exit 5", &[]).job_id;
    let after = place.submit("exit 6", &["--dependency=afternotok:1"]).job_id;
    let client = place.client();
    until("it runs", || {
        let page = client.job(&job(during)).unwrap();
        (page.jobs[0].row.state == JobState::Running).then_some(())
    });
    daemon.stop();
    // It ends while nobody is there to hear of it.
    std::fs::write(&fifo, "x\n").unwrap();
    until("its processes are gone", || place.job_processes().is_empty().then_some(()));
    let _daemon = place.start();
    let client = place.client();
    let end = client.wait_over(&job(during)).unwrap();
    assert_eq!(end.jobs[0].exit.unwrap().code, 5);
    let end = client.wait_over(&job(after)).unwrap();
    assert_eq!(end.jobs[0].exit.unwrap().code, 6);
    let output = std::fs::read_to_string(place.path("slurm-1.out")).unwrap();
    assert_eq!(output, "went on\n");
    let history = client.history(&HistoryQuery::default()).unwrap();
    assert_eq!(history.rows.len(), 2);
}

#[test]
fn an_array_is_one_submission_and_one_row() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    let array = place.submit("exit $SLURM_ARRAY_TASK_ID", &["--array=0-9%2", "--hold"]);
    assert_eq!(array.tasks, 10);
    let rows = client.queue(&QueueQuery::default()).unwrap().rows;
    let names: Vec<&str> = rows.iter().map(|row| row.job.as_str()).collect();
    assert_eq!(names, ["1_[0-9%2]"]);
    let expand = QueueQuery { expand: Some(true), ..QueueQuery::default() };
    assert_eq!(client.queue(&expand).unwrap().rows.len(), 10);
    let release =
        ActionRequest { action: Action::Release, jobs: vec![job(1)], ..ActionRequest::default() };
    client.act(&release).unwrap();
    let end = client.wait_over(&job(1)).unwrap();
    let codes: Vec<u8> = end.jobs.iter().map(|j| j.exit.unwrap().code).collect();
    assert_eq!(codes, (0..10).collect::<Vec<u8>>());
}

#[test]
fn a_cancelled_job_ends_whole() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    // Ignores the polite signal and leaves the group.
    let body = "trap '' TERM; setsid sleep 600 & sleep 600; wait";
    let id = place.submit(body, &["--time=5"]).job_id;
    until("it runs", || (place.job_processes().len() >= 3).then_some(()));
    let cancel = ActionRequest { jobs: vec![job(id)], hurry: true, ..ActionRequest::default() };
    assert!(client.act(&cancel).unwrap().results[0].error.is_none());
    let end = client.wait_over(&job(id)).unwrap();
    assert_eq!(end.jobs[0].state, JobState::Cancelled);
    until("nothing is left", || place.job_processes().is_empty().then_some(()));
}

#[test]
fn pages_hold_every_row_once() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    for _ in 0..7 {
        place.submit("true", &["--hold"]);
    }
    let mut query = QueueQuery { limit: Some(3), ..QueueQuery::default() };
    let mut seen = Vec::new();
    loop {
        let page = client.queue(&query).unwrap();
        seen.extend(page.rows.iter().map(|row| row.id));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, (1..=7).collect::<Vec<u32>>());
}

#[test]
fn events_are_told_as_they_come() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    let mut events = client.events(&muster_api::EventQuery::default()).unwrap();
    // One that ends at once may be told of by its exit alone.
    place.submit("until [ -e go ]; do sleep 0.01; done", &[]);
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "job_exited") {
        let event = events.next_within(crate::place::PATIENCE).unwrap().unwrap();
        let data = serde_json::to_value(&event.data).unwrap();
        names.push(data["event"].as_str().unwrap().to_owned());
        if data["event"] == "job_started" {
            std::fs::write(place.path("go"), "").unwrap();
        }
    }
    names.retain(|name| name.starts_with("job"));
    assert_eq!(names, ["job_submitted", "job_placed", "job_started", "job_exited"]);
}

#[test]
fn a_job_says_why_it_waits() {
    let place = Place::new();
    let _daemon = place.start();
    let client = place.client();
    let big = place.submit("sleep 600", &["--nodes=4", "--gpus-per-node=8", "--time=10"]).job_id;
    let small = place.submit("true", &["--gpus=1", "--time=20"]).job_id;
    until("the first runs", || {
        let page = client.job(&job(big)).unwrap();
        (page.jobs[0].row.state == JobState::Running).then_some(())
    });
    let why = client.why(&job(small)).unwrap();
    assert_eq!(why.jobs[0].reasons[0].code, "RESOURCES");
    assert!(why.jobs[0].reasons[0].text.contains("held by"), "{why:?}");
    let trial = place.slurm("sbatch", &["--test-only", "--wrap=true"]);
    assert!(trial.status.success() && said(&trial).contains("to start at"), "{}", said(&trial));
}
