//! The rules by which a group applies its commands.
//!
//! Members of two releases apply the same entries while a group is upgraded, so a rule that changes what an entry does
//! holds from the entry on that raises the group's format, on all members alike.

/// The rules of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rules {
    /// Those of formats up to 7.
    Seven,
    /// Counts of restores are compared with those of all sets, and what a neighbour states is bounded: since format 8.
    Eight,
    /// And no section is handed to a node that is about to exit: since format 9.
    Nine,
    /// And a closing set ends a migration with the sections that have departed: since format 10.
    #[default]
    Ten,
}

impl Rules {
    /// The rules of a group with this format.
    #[must_use]
    pub fn of_format(format: u16) -> Rules {
        match format {
            ..8 => Rules::Seven,
            8 => Rules::Eight,
            9 => Rules::Nine,
            _ => Rules::Ten,
        }
    }
}
