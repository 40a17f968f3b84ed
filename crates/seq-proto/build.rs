//! Compiles `proto/` with protox, so that no system `protoc` is needed.

use std::path::PathBuf;

const PROTOS: [&str; 6] = ["route", "sequence", "control", "handover", "raft", "admin"];

#[expect(clippy::disallowed_methods, reason = "cargo speaks to a build script through the environment")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let files = PROTOS.map(|name| format!("seqsvr/v1/{name}.proto"));
    let mut compiler = protox::Compiler::new([root])?;
    compiler.include_source_info(true).include_imports(true).open_files(files)?;
    let descriptors = PathBuf::from(std::env::var("OUT_DIR")?).join("seqsvr_descriptor.bin");
    std::fs::write(descriptors, compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .bytes(".seqsvr.v1.RaftMessage")
        .bytes(".seqsvr.v1.SnapshotChunk")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
