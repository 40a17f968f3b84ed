//! What must survive any bytes.
//!
//! Each function takes bytes from nowhere and may accept or refuse them, but never panics, hangs or takes memory out of
//! proportion. `cargo xtask fuzz` feeds it what libFuzzer finds under coverage; the tests feed it random bytes, and inputs
//! that once failed, on every run.

mod wire;

pub use wire::wire;

/// Runs a target on the files that the command line names: repeats what the fuzzer found, without the fuzzer.
///
/// # Errors
/// When a file cannot be read.
pub fn run_files(target: fn(&[u8])) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        target(&std::fs::read(path)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn random_bytes_pass_the_wire(data in prop::collection::vec(any::<u8>(), 0..512)) {
            wire(&data);
        }
    }
}
