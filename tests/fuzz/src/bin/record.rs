//! The fuzzer of the store's records: framed, checksummed and archived. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_store::fuzzing::record(data));

#[cfg(not(fuzzing))]
fn main() {}
