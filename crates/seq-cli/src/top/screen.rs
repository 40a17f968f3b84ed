//! The state of the screen.

use seq_observe::activity::By;

use super::observing::Wanted;

/// A table of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    Nodes,
    #[default]
    Sections,
    Migrations,
    Events,
}

impl Tab {
    pub(super) const ALL: [Tab; 4] = [Tab::Nodes, Tab::Sections, Tab::Migrations, Tab::Events];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tab::Nodes => "nodes",
            Tab::Sections => "sections",
            Tab::Migrations => "migrations",
            Tab::Events => "events",
        }
    }

    pub(super) fn moved(self, by: usize) -> Tab {
        let place = Tab::ALL.iter().position(|tab| *tab == self).expect("all tabs are listed");
        Tab::ALL[(place + by) % Tab::ALL.len()]
    }
}

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct Screen {
    pub(super) tab: Tab,
    /// Order of the sections.
    pub(super) by: By,
    /// Words in lower-case letters, separated by spaces. A row is shown only if it contains all of them.
    pub(super) filter: String,
    /// Whether the user is typing the filter. If so, each pressed key is added to the filter.
    pub(super) is_typing: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Index of the selected row, counted among the rows that match the filter.
    pub(super) selected: usize,
    /// Index of the section that is shown in detail.
    pub(super) detail: Option<u32>,
}

impl Screen {
    pub(super) fn new(by: By) -> Screen {
        Screen { by, ..Screen::default() }
    }

    /// Returns the input of the next observation.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted { by: self.by, detail: self.detail, paused: self.paused }
    }

    /// Returns whether a row with these cells matches the filter.
    pub(super) fn leaves(&self, cells: &[&str]) -> bool {
        let has = |word: &str| cells.iter().any(|cell| cell.to_lowercase().contains(word));
        self.filter.split_whitespace().all(has)
    }
}
