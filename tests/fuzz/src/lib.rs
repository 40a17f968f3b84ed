//! What must survive any bytes.
//!
//! Each function takes bytes from nowhere and may accept or refuse them, but never panics, hangs or takes memory out of
//! proportion. `cargo xtask fuzz` feeds it what libFuzzer finds under coverage; the tests feed it random bytes on every run.
//! The readers of stored records are fuzzed as well, by the binary `record`: they are `seq_store::fuzzing`, which exists
//! only in a build for the fuzzer.

mod resp;
mod wire;

pub use resp::resp;
pub use wire::wire;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn random_bytes_pass_the_wire(data in prop::collection::vec(any::<u8>(), 0..512)) {
            wire(&data);
        }

        #[test]
        fn random_bytes_pass_as_commands_or_not(data in prop::collection::vec(any::<u8>(), 0..512)) {
            resp(&data);
        }
    }
}
