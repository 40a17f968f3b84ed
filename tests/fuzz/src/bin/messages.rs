//! The fuzzer of [`seq_fuzz::messages`]. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_fuzz::messages(data));

#[cfg(not(fuzzing))]
fn main() {}
