//! The one binary: servers, client and operator commands, replay and bench.
fn main() {}
