//! The repository checks.
fn main() {}
