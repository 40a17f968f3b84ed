//! The fuzzer of [`seq_fuzz::wire`]. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_fuzz::wire(data));

#[cfg(not(fuzzing))]
fn main() {}
