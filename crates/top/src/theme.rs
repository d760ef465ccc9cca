//! Colours: the sixteen that every terminal has, and none where `NO_COLOR` is set. What they say is
//! said in words too.

use ratatui::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    /// There are.
    pub(crate) colour: bool,
}

impl Theme {
    /// What the environment asks for (no-color.org: set and not empty).
    pub(crate) fn from_environment() -> Self {
        Self { colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    fn of(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// It goes well.
    pub(crate) fn good(self) -> Style {
        self.of(Color::Green)
    }

    /// It waits, or is used in part.
    pub(crate) fn some(self) -> Style {
        self.of(Color::Yellow)
    }

    /// It is broken.
    pub(crate) fn bad(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Beside the point.
    pub(crate) fn faint(self) -> Style {
        self.of(Color::DarkGray)
    }

    /// A title.
    pub(crate) fn title() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is chosen.
    pub(crate) fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
