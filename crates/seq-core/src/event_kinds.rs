//! Definition of the kinds of events of a log, from one list of variants and names.

/// Defines an enum of kinds from a list of its variants, each with its name. The list is in order of the names.
macro_rules! event_kinds {
    ($(#[$doc:meta])* $kinds:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kinds {
            $($(#[$of])* $variant,)*
        }

        impl $kinds {
            /// All kinds, in the order of their names.
            pub const ALL: &[$kinds] = &[$($kinds::$variant,)*];

            /// The names of all kinds, in order of the alphabet. No kind of another log has one of these names.
            pub const NAMES: &[&'static str] = &[$($name,)*];

            /// Returns the name of the kind, which events, filters and the field `event` of log lines have.
            #[must_use]
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    };
}

pub(crate) use event_kinds;

#[cfg(test)]
mod tests {
    use crate::node_events::{NodeEventKind, Refusals};
    use crate::state::EventKind;

    #[test]
    fn each_name_is_of_one_kind_and_the_lists_are_in_order() {
        assert!(EventKind::NAMES.is_sorted() && NodeEventKind::NAMES.is_sorted());
        let mut names = [EventKind::NAMES, NodeEventKind::NAMES].concat();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EventKind::ALL.len() + NodeEventKind::ALL.len());
        assert_eq!((EventKind::Takeover.name(), NodeEventKind::LeaseLost.name()), ("takeover", "lease_lost"));
        for (place, refusals) in Refusals::ALL.into_iter().enumerate() {
            assert_eq!(refusals.place(), place);
        }
    }
}
