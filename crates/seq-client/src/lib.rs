//! The Rust SDK: routes, deadlines, retries with a budget.

pub mod pool;
