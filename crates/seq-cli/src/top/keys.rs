//! The effect of each key on the screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use seq_observe::activity::By;

use super::row::Seen;
use super::screen::{Screen, Tab};
use super::tables;

/// Number of rows by which the selection moves at the keys PgUp and PgDn.
const PAGE: usize = 10;

/// Longest filter, in characters.
const MAX_FILTER: usize = 64;

/// The action that the caller must take after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The page is drawn again, and [`Screen::wanted`] may have changed.
    Draw,
    /// The command ends.
    End,
}

impl Screen {
    /// Changes the state of the screen for a key.
    pub(super) fn press(&mut self, key: KeyEvent, seen: &Seen) -> Action {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_ctrl => return Action::End,
            _ if self.is_typing => self.type_filter(key.code),
            _ if self.help => self.help = false,
            KeyCode::Char('q') => return Action::End,
            KeyCode::Esc => (self.detail, self.filter) = (None, String::new()),
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => (self.is_typing, self.selected) = (true, 0),
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char(digit @ '1'..='4') => self.open(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => self.open(self.tab.moved(1)),
            KeyCode::BackTab => self.open(self.tab.moved(Tab::ALL.len() - 1)),
            KeyCode::Char('s') => {
                self.by = if self.by == By::Numbers { By::Writes } else { By::Numbers };
            }
            KeyCode::Enter if self.tab == Tab::Sections => {
                let rows = tables::sections(&seen.observation, self);
                self.detail = rows.get(self.selected).map(|busy| busy.section).filter(|one| self.detail != Some(*one));
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected += 1,
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            KeyCode::PageDown => self.selected += PAGE,
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            _ => {}
        }
        let rows = tables::rows(&seen.observation, self);
        self.selected = self.selected.min(rows.saturating_sub(1));
        Action::Draw
    }

    fn open(&mut self, tab: Tab) {
        (self.tab, self.selected) = (tab, 0);
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(char) if self.filter.chars().count() < MAX_FILTER => self.filter.extend(char.to_lowercase()),
            _ => {}
        }
    }
}
