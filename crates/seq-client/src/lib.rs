//! The Rust SDK: routes, deadlines, retries with a budget.
