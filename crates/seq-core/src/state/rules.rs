//! The rules by which a store applies its commands.
//!
//! While the members of a store are upgraded, members of two releases apply the same entries. So a rule that changes
//! the effect of entries must take effect on all members at the same entry. This entry raises the format of the store.

/// A version of the rules by which a store applies its commands. Each variant has the rules of the previous variant and
/// further rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rules {
    /// The rules of formats up to 7.
    Seven,
    /// The rules since format 8. The count of a restore is compared with the counts of all sets, and limits apply to
    /// the statements of other sets.
    Eight,
    /// The rules since format 9. No section is handed over to a node that is about to exit.
    Nine,
    /// The rules since format 10. A rollback in a closing set completes the migration with the sections that have
    /// departed.
    Ten,
    /// The rules since format 11. Restores and arrivals raise the ceilings of lanes by the margins of their series. A
    /// set that is the layout writer can neither be closed nor be forgotten. Ownerships record how they began, and
    /// events are kept.
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
