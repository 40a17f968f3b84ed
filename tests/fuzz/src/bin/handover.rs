//! The fuzzer of [`seq_fuzz::handover`]. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_fuzz::handover(data));

#[cfg(not(fuzzing))]
fn main() {}
