//! The fuzzer of [`seq_fuzz::control`]. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_fuzz::control(data));

#[cfg(not(fuzzing))]
fn main() {}
