//! The fuzzer of [`seq_fuzz::apply`]. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_fuzz::apply(data));

#[cfg(not(fuzzing))]
fn main() {}
