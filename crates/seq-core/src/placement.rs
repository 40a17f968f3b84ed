//! Which owner is proposed for a section.
