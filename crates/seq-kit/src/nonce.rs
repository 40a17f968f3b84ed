//! Random numbers by which processes tell apart what must never be taken for one another: registrations, runs of a
//! program, sets, plans. They come from the operating system. A generator that is seeded with the uptime would repeat
//! itself on machines that start alike, and others could guess its numbers.
//!
//! In a build with `--cfg simulated_network`, which only `tests/turmoil` has, they come from the generator of the
//! thread, whose seed determines the whole run.

/// Draws a random number other than 0.
///
/// # Panics
/// When the operating system provides no random numbers.
#[must_use]
pub fn draw_nonce() -> u64 {
    let mut nonce = 0;
    while nonce == 0 {
        nonce = draw();
    }
    nonce
}

#[cfg(not(simulated_network))]
fn draw() -> u64 {
    getrandom::u64().expect("the operating system gives random numbers")
}

#[cfg(simulated_network)]
fn draw() -> u64 {
    fastrand::u64(..)
}
