//! The fuzzer of [`seq_fuzz::inter_set`]. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_fuzz::inter_set(data));

#[cfg(not(fuzzing))]
fn main() {}
