//! The terminal itself: switched over at the beginning, given back at the end, come what may.

use crate::TopError;
use crate::app::{App, View};
use crate::ask::keep;
use crate::draw::draw;
use crate::theme::Theme;
use jiff::tz::TimeZone;
use muster_client::Client;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind,
};
use ratatui::crossterm::execute;
use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// An answer is drawn so late at most.
const LOOK: Duration = Duration::from_millis(250);

/// Runs until the user leaves.
pub(crate) fn run(view: View) -> Result<(), TopError> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    // Whether anybody answers is better said on the terminal as it is.
    let client = Client::connect()?;
    let mut app = App::new(view, Theme::from_environment(), TimeZone::system());
    let (want, wants) = channel();
    let (out, answers) = channel();
    std::thread::spawn(move || keep(&client, &wants, &out));
    let mut terminal = ratatui::try_init()?;
    let shown = execute!(std::io::stdout(), EnableMouseCapture)
        .and_then(|()| show(&mut terminal, &mut app, &want, &answers));
    let _ = execute!(std::io::stdout(), DisableMouseCapture);
    ratatui::restore();
    Ok(shown?)
}

fn show(
    terminal: &mut DefaultTerminal,
    app: &mut App,
    want: &std::sync::mpsc::Sender<crate::ask::Want>,
    answers: &Receiver<Result<crate::seen::Seen, String>>,
) -> std::io::Result<()> {
    let mut asked = None;
    let mut changed = true;
    while !app.over {
        if asked != Some(app.want()) {
            asked = Some(app.want());
            // The other thread ends after this one.
            let _ = want.send(app.want());
        }
        for answer in answers.try_iter() {
            app.take(answer);
            changed = true;
        }
        if changed {
            terminal.draw(|frame| draw(frame, app))?;
            changed = false;
        }
        if event::poll(LOOK)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
                Event::Mouse(mouse) => app.mouse(mouse.kind, mouse.column, mouse.row),
                _ => {}
            }
            changed = true;
        }
    }
    Ok(())
}
