//! The rules by which a group applies its commands.
//!
//! Members of two releases apply the same entries while a group is upgraded. So a rule that changes the effect of an
//! entry takes effect with the entry that raises the group's format, on all members alike.

/// The rules of a group. Each variant adds to the rules before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rules {
    /// The rules of formats up to 7.
    Seven,
    /// Since format 8: counts of restores are compared with the counts of all sets, and the statements of other sets
    /// are bounded.
    Eight,
    /// Since format 9: no section is handed to a node that is about to exit.
    Nine,
    /// Since format 10: a closing set ends a migration with the sections that have departed.
    Ten,
    /// Since format 11: restores and arrivals move the ceilings of lanes by the margins of their series, and the set
    /// that creates series neither closes nor is forgotten.
    #[default]
    Eleven,
}

impl Rules {
    /// Returns the rules of a group with this format.
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
