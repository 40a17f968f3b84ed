//! The fuzzer of [`seq_fuzz::wire`]. Without the fuzzer it runs the inputs whose files it is given.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| seq_fuzz::wire(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    seq_fuzz::run_files(seq_fuzz::wire)
}
