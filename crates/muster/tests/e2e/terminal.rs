//! Interactive work at a real terminal: `srun --pty`, `salloc`, attach and detach, interrupts.

use crate::place::{Place, job, until};
use crate::screen::Screen;
use muster_api::QueueQuery;
use muster_model::JobState;

const SIZE: (u16, u16) = (33, 99);

/// What the shell shows when it waits for a command.
pub(crate) const PROMPT: &str = "at your service: ";

/// The key that leaves an attached terminal.
const DETACH: &str = "\u{1d}";
/// Control and C.
const INTERRUPT: &str = "\u{3}";
/// Control and D.
const END: &str = "\u{4}";

fn until_nothing_is_queued(place: &Place) {
    let client = place.client();
    until("the queue is empty", || {
        client.queue(&QueueQuery::default()).unwrap().rows.is_empty().then_some(())
    });
}

/// Presses enter until the program there, which shows its size at each line, shows this one.
fn until_size(screen: &mut Screen, size: &str) {
    loop {
        screen.type_in("\n");
        if screen.see_one(&[size, "33 99"]) == size {
            return;
        }
    }
}

#[test]
fn srun_with_a_terminal_outside_a_job_is_a_job_at_this_terminal() {
    let place = Place::new();
    let _daemon = place.start();
    let body = "tty; stty size; while read line; do stty size; done; exit 6";
    let mut screen = Screen::start(&place, SIZE, &["srun", "--pty", "sh", "-c", body]);
    screen.see("/dev/pts/");
    screen.see("33 99");
    screen.resize((44, 111));
    until_size(&mut screen, "44 111");
    screen.type_in(END);
    until_nothing_is_queued(&place);
    // The terminal that takes lines again makes both of a line end.
    screen.see("task 0: Exited with exit code 6\r\n");
    assert!(screen.takes_lines(), "the terminal is left as it was");
    assert_eq!(screen.code(), 6);
}

#[test]
fn keys_of_a_step_at_a_terminal_are_the_steps() {
    let place = Place::new();
    let _daemon = place.start();
    let body = "trap 'echo heard; exit 8' INT; echo re'ady'; while :; do read line; done";
    let mut screen = Screen::start(&place, SIZE, &["srun", "--pty", "sh", "-c", body]);
    screen.see("ready");
    screen.type_in(INTERRUPT);
    screen.see("heard");
    assert_eq!(screen.code(), 8);
}

#[test]
fn a_shell_of_salloc_runs_steps_with_and_without_a_terminal() {
    let place = Place::new();
    let _daemon = place.start();
    let mut screen = Screen::start(&place, SIZE, &["salloc", "-N2", "-n2"]);
    screen.see("salloc: Granted job allocation 1");
    screen.see(PROMPT);
    screen.type_in("srun -l sh -c 'echo on $SLURMD_NODENAME of $((SLURM_NTASKS + 40))' | sort\n");
    screen.see("0: on node1 of 42");
    screen.see("1: on node2 of 42");
    // What is typed earlier goes to the step.
    screen.see(PROMPT);
    screen.type_in("srun --pty -n1 sh -c 'stty size; read line; echo step $SLURM_STEP_ID $line'\n");
    screen.see("33 99");
    screen.type_in("typed\n");
    screen.see("step 1 typed");
    screen.see(PROMPT);
    screen.type_in("exit $((3 + 4))\n");
    screen.see("salloc: Relinquishing job allocation 1");
    assert_eq!(screen.code(), 7);
    until_nothing_is_queued(&place);
}

#[test]
fn a_terminal_job_is_left_and_come_back_to() {
    let place = Place::new();
    let _daemon = place.start();
    let body = "stty size; while read line && test -n \"$line\"; do echo $((line + 1)); done; \
                while read line; do stty size; done; exit 5";
    let mut screen = Screen::start(&place, SIZE, &["muster", "run", "--pty", "sh", "-c", body]);
    screen.see("connected to job 1");
    screen.type_in("41\n");
    screen.see("42");
    screen.type_in(DETACH);
    screen.see("detached; muster attach 1 connects again");
    assert_eq!(screen.code(), 0);
    let state = place.client().job(&job(1)).unwrap().jobs[0].row.state;
    assert_eq!(state, JobState::Running);
    let mut screen = Screen::start(&place, SIZE, &["muster", "attach", "1"]);
    // What it showed before, and what it shows now.
    screen.see("42");
    screen.type_in("76\n");
    screen.see("77");
    screen.type_in("\n");
    screen.resize((20, 70));
    until_size(&mut screen, "20 70");
    screen.type_in(END);
    assert_eq!(screen.code(), 5);
    let written = std::fs::read_to_string(place.path("slurm-1.out")).unwrap();
    let mut rest = written.as_str();
    for shown in ["42\r\n", "77\r\n", "20 70\r\n"] {
        rest = rest.split_once(shown).unwrap_or_else(|| panic!("{shown:?} not in {written:?}")).1;
    }
    until_nothing_is_queued(&place);
}

#[test]
fn the_first_interrupt_of_srun_asks_and_the_second_goes_to_the_tasks() {
    let place = Place::new();
    let _daemon = place.start();
    let mut screen =
        Screen::start(&place, SIZE, &["srun", "-n2", "sh", "-c", "echo re'ady'; exec sleep 600"]);
    screen.see("ready");
    screen.see("ready");
    screen.type_in(INTERRUPT);
    screen.see("srun: interrupt (one more within 1 sec to abort)");
    screen.see("srun: StepId=1.0 tasks 0-1: running");
    // One that comes too late on a slow machine is a first one again.
    let asks = "srun: interrupt (one more within 1 sec to abort)";
    loop {
        screen.type_in(INTERRUPT);
        if screen.see_one(&["srun: sending Ctrl-C to StepId=1.0", asks]) != asks {
            break;
        }
    }
    assert_eq!(screen.code(), 130);
    until_nothing_is_queued(&place);
}
