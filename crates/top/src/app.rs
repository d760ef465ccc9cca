//! What is shown, and what keys and the mouse do to it. No terminal, no daemon.

use crate::ask::Want;
use crate::seen::Seen;
use crate::theme::Theme;
use jiff::tz::TimeZone;
use muster_api::{DeviceView, NodeView, QueueRow};
use muster_model::JobState;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use ratatui::layout::{Position, Rect};

/// The views, in the order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// What waits and runs.
    #[default]
    Queue,
    /// Nodes.
    Nodes,
    /// GPUs.
    Gpus,
    /// What is planned.
    Plan,
    /// Shares.
    Shares,
}

impl View {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Nodes, Self::Gpus, Self::Plan, Self::Shares];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Queue => "Queue",
            Self::Nodes => "Nodes",
            Self::Gpus => "GPUs",
            Self::Plan => "Plan",
            Self::Shares => "Shares",
        }
    }
}

/// How far the plan looks, hours.
pub(crate) const HORIZONS: [u64; 6] = [1, 3, 12, 24, 72, 168];

/// Where things were drawn, for the mouse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    /// The titles of the views.
    pub(crate) tabs: Vec<Rect>,
    /// The rows, one a line.
    pub(crate) rows: Rect,
}

/// Where a view stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The chosen row.
    pub(crate) chosen: usize,
    /// The first row that is shown.
    pub(crate) top: usize,
}

/// The whole state.
pub(crate) struct App {
    /// What came last.
    pub(crate) seen: Seen,
    /// Why nothing newer came; empty where all is well.
    pub(crate) trouble: String,
    /// Whether anything came at all.
    pub(crate) ready: bool,
    /// The view.
    pub(crate) view: View,
    /// The open job, by raw number.
    pub(crate) job: Option<u32>,
    /// How far the open job is scrolled.
    pub(crate) scroll: u16,
    /// The keys are shown.
    pub(crate) help: bool,
    /// What is looked for; `Some` in `typing` while it is typed.
    pub(crate) find: String,
    /// It is being typed.
    pub(crate) typing: bool,
    /// Only jobs of the caller.
    pub(crate) mine: bool,
    /// Only jobs that wait.
    pub(crate) waiting: bool,
    /// Only jobs on this node.
    pub(crate) node: Option<String>,
    /// Which of [`HORIZONS`].
    pub(crate) horizon: usize,
    /// The user has left.
    pub(crate) over: bool,
    /// Colours.
    pub(crate) theme: Theme,
    /// In which instants are told.
    pub(crate) zone: TimeZone,
    /// Where things were drawn.
    pub(crate) areas: Areas,
    places: [Place; 5],
}

impl App {
    /// Before anything came.
    pub(crate) fn new(view: View, theme: Theme, zone: TimeZone) -> Self {
        Self {
            seen: Seen::default(),
            trouble: String::new(),
            ready: false,
            view,
            job: None,
            scroll: 0,
            help: false,
            find: String::new(),
            typing: false,
            mine: false,
            waiting: false,
            node: None,
            horizon: 3,
            over: false,
            theme,
            zone,
            areas: Areas::default(),
            places: [Place::default(); 5],
        }
    }

    /// What has to be asked for.
    pub(crate) fn want(&self) -> Want {
        Want { view: self.view, job: self.job }
    }

    /// Takes an answer.
    pub(crate) fn take(&mut self, answer: Result<Seen, String>) {
        match answer {
            Ok(seen) => {
                // The chosen job stays chosen where the list moves.
                let kept = (self.view == View::Queue).then(|| self.chosen_job()).flatten();
                self.seen = seen;
                (self.ready, self.trouble) = (true, String::new());
                let at = kept.and_then(|id| self.jobs().iter().position(|row| row.id == id));
                if let Some(at) = at {
                    self.place_mut().chosen = at;
                }
            }
            Err(text) => self.trouble = text,
        }
        self.keep_in();
    }

    /// Where the shown view stands.
    pub(crate) fn place(&self) -> Place {
        self.places[self.view as usize]
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.places[self.view as usize]
    }

    /// Moves the window so that the chosen row is in it.
    pub(crate) fn show(&mut self, rows: Rect) {
        self.areas.rows = rows;
        self.keep_in();
        let (height, count) = (usize::from(rows.height), self.count());
        let place = self.place_mut();
        place.top = place.top.min(place.chosen).min(count.saturating_sub(height));
        place.top = place.top.max((place.chosen + 1).saturating_sub(height));
    }

    fn keep_in(&mut self) {
        let last = self.count().saturating_sub(1);
        let place = self.place_mut();
        place.chosen = place.chosen.min(last);
    }

    /// The jobs that are looked for.
    pub(crate) fn jobs(&self) -> Vec<&QueueRow> {
        let on_node = self.node.as_ref().map(|name| {
            let node = self.seen.nodes.iter().find(|node| node.name == *name);
            node.map(|node| node.jobs.iter().map(|job| job.id).collect::<Vec<_>>())
                .unwrap_or_default()
        });
        let words: Vec<String> = self.find.split_whitespace().map(str::to_lowercase).collect();
        let found = |row: &&QueueRow| {
            (!self.mine || row.user == self.seen.user)
                && (!self.waiting || row.state == JobState::Pending)
                && on_node.as_ref().is_none_or(|ids| ids.contains(&row.id))
                && words.iter().all(|word| {
                    let why = row.reason.as_ref().map_or("", |reason| reason.text.as_str());
                    [&row.job, &row.name, &row.user, &row.account, &row.partition, &row.node_list]
                        .into_iter()
                        .map(String::as_str)
                        .chain([why])
                        .any(|text| text.to_lowercase().contains(word))
                })
        };
        self.seen.queue.iter().filter(found).collect()
    }

    /// Every GPU with its node.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = (&NodeView, &DeviceView)> {
        self.seen.nodes.iter().flat_map(|node| node.devices.iter().map(move |gpu| (node, gpu)))
    }

    /// How many rows the shown view has.
    pub(crate) fn count(&self) -> usize {
        match self.view {
            View::Queue => self.jobs().len(),
            View::Nodes => self.seen.nodes.len(),
            View::Gpus => self.gpus().count(),
            View::Plan => self.seen.plan.lanes.len(),
            View::Shares => self.seen.shares.len(),
        }
    }

    fn chosen_job(&self) -> Option<u32> {
        self.jobs().get(self.place().chosen).map(|row| row.id)
    }

    /// A key was pressed.
    pub(crate) fn key(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            self.over = true;
        } else if self.typing {
            self.type_key(key.code);
        } else if self.help {
            self.help = false;
        } else if self.job.is_some() && self.job_key(key.code) {
        } else {
            self.list_key(key.code);
        }
        self.keep_in();
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.find) = (false, String::new()),
            KeyCode::Backspace => drop(self.find.pop()),
            KeyCode::Char(letter) if self.find.len() < 200 => self.find.push(letter),
            _ => {}
        }
        self.place_mut().chosen = 0;
    }

    /// True where the key was for the open job.
    fn job_key(&mut self, code: KeyCode) -> bool {
        let by = |app: &mut Self, lines: i32| {
            app.scroll = app.scroll.saturating_add_signed(lines as i16);
        };
        match code {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.close(),
            KeyCode::Char('j') | KeyCode::Down => by(self, 1),
            KeyCode::Char('k') | KeyCode::Up => by(self, -1),
            KeyCode::PageDown | KeyCode::Char(' ') => by(self, 10),
            KeyCode::PageUp => by(self, -10),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            _ => return false,
        }
        true
    }

    fn list_key(&mut self, code: KeyCode) {
        let page = usize::from(self.areas.rows.height.max(2)) as isize - 1;
        match code {
            KeyCode::Char('q') => self.over = true,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char(digit @ '1'..='5') => self.go(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => self.go(View::ALL[(self.view as usize + 1) % 5]),
            KeyCode::BackTab => self.go(View::ALL[(self.view as usize + 4) % 5]),
            KeyCode::Char('j') | KeyCode::Down => self.step(1),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.step(page),
            KeyCode::PageUp => self.step(-page),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Enter | KeyCode::Right => self.open(),
            KeyCode::Char('/') => {
                self.go(View::Queue);
                self.typing = true;
            }
            KeyCode::Char('u') => {
                self.go(View::Queue);
                self.mine = !self.mine;
            }
            KeyCode::Char('w') => {
                self.go(View::Queue);
                self.waiting = !self.waiting;
            }
            KeyCode::Char('+') => self.horizon = (self.horizon + 1).min(HORIZONS.len() - 1),
            KeyCode::Char('-') => self.horizon = self.horizon.saturating_sub(1),
            KeyCode::Esc => self.show_all(),
            _ => {}
        }
    }

    fn show_all(&mut self) {
        (self.find, self.node) = (String::new(), None);
        (self.mine, self.waiting) = (false, false);
    }

    fn go(&mut self, view: View) {
        self.close();
        self.view = view;
    }

    fn close(&mut self) {
        (self.job, self.scroll, self.seen.job) = (None, 0, None);
    }

    fn step(&mut self, by: isize) {
        let place = self.place_mut();
        place.chosen = place.chosen.saturating_add_signed(by);
        self.keep_in();
    }

    /// Opens what is chosen: a job, or the jobs on a node.
    fn open(&mut self) {
        let chosen = self.place().chosen;
        match self.view {
            View::Queue => self.job = self.chosen_job(),
            View::Nodes => {
                self.show_all();
                self.node = self.seen.nodes.get(chosen).map(|node| node.name.clone());
                self.go(View::Queue);
            }
            View::Gpus => {
                let gpu = self.gpus().nth(chosen).map(|(_, gpu)| gpu.jobs.first().copied());
                self.job = gpu.flatten();
            }
            View::Plan | View::Shares => {}
        }
        self.scroll = 0;
    }

    /// The mouse did something there.
    pub(crate) fn mouse(&mut self, what: MouseEventKind, column: u16, row: u16) {
        let at = Position { x: column, y: row };
        match what {
            MouseEventKind::ScrollDown if self.job.is_some() => drop(self.job_key(KeyCode::Down)),
            MouseEventKind::ScrollUp if self.job.is_some() => drop(self.job_key(KeyCode::Up)),
            MouseEventKind::ScrollDown => self.step(3),
            MouseEventKind::ScrollUp => self.step(-3),
            MouseEventKind::Down(MouseButton::Left) => self.click(at),
            MouseEventKind::Down(MouseButton::Right) if self.job.is_some() => self.close(),
            _ => {}
        }
    }

    fn click(&mut self, at: Position) {
        if let Some(tab) = self.areas.tabs.iter().position(|tab| tab.contains(at)) {
            return self.go(View::ALL[tab]);
        }
        if self.job.is_none() && self.areas.rows.contains(at) {
            let clicked = self.place().top + usize::from(at.y - self.areas.rows.y);
            if clicked >= self.count() {
                return;
            }
            if clicked == self.place().chosen {
                self.open();
            } else {
                self.place_mut().chosen = clicked;
            }
        }
    }
}
