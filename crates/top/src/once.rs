//! One frame as text.

use crate::TopError;
use crate::app::{App, View};
use crate::ask::round;
use crate::draw::draw;
use crate::seen::Seen;
use crate::theme::Theme;
use jiff::tz::TimeZone;
use muster_client::Client;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use std::io::Write as _;

/// The size of a frame where standard output is no terminal.
const SIZE: (u16, u16) = (80, 24);

/// Asks once and prints.
pub(crate) fn run(view: View) -> Result<(), TopError> {
    let client = Client::connect()?;
    let mut app = App::new(view, Theme { colour: false }, TimeZone::system());
    let mut seen = Seen::default();
    round(&client, app.want(), &mut seen)?;
    app.take(Ok(seen));
    let size = if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        ratatui::crossterm::terminal::size().unwrap_or(SIZE)
    } else {
        SIZE
    };
    let text = frame(&mut app, size);
    // A closed pipe is no error.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}

/// A frame of that size, blanks at the ends of lines left out.
pub(crate) fn frame(app: &mut App, (width, height): (u16, u16)) -> String {
    // Cells in memory take whatever is drawn.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(done) = terminal.draw(|frame| draw(frame, app));
    text(done.buffer)
}

fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in 0..buffer.area.height {
        let mut line = String::new();
        let mut column = 0;
        while column < buffer.area.width {
            let symbol = buffer[(column, row)].symbol();
            line.push_str(symbol);
            // A wide letter takes the cell behind it too.
            column += (ratatui::text::Span::raw(symbol).width() as u16).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
