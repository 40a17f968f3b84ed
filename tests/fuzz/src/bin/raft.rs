//! The fuzzer of Raft's messages: postcard to the library's types. There is nothing to run without the fuzzer.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_store::fuzzing::raft(data));

#[cfg(not(fuzzing))]
fn main() {}
