//! The rules by which a store applies its commands.
//!
//! While the members of a store are upgraded, members of two releases apply the same entries. So a rule that changes
//! the effect of an entry takes effect on all members with the same entry, which raises the format of the store.

/// The rules by which a store applies its commands. Each variant adds to the rules before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rules {
    /// The rules of formats up to 7.
    Seven,
    /// Rules since format 8: the count of a restore is compared with the counts of all sets, and limits apply to the
    /// statements of other sets.
    Eight,
    /// Rules since format 9: no section is handed to a node that is about to exit.
    Nine,
    /// Rules since format 10: in a closing set, a rollback completes a migration with the sections that have departed.
    Ten,
    /// Rules since format 11: restores and arrivals raise the ceilings of lanes by the margins of their series, and the
    /// layout writer can neither be closed nor be forgotten.
    #[default]
    Eleven,
}

impl Rules {
    /// Returns the rules of a store with this format.
    #[must_use]
    pub fn of_format(format: u16) -> Rules {
        match format {
            ..8 => Rules::Seven,
            8 => Rules::Eight,
            9 => Rules::Nine,
            10 => Rules::Ten,
            _ => Rules::Eleven,
        }
    }
}
