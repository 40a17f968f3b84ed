//! Compiles `proto/` with protox, so that no system `protoc` is needed.

use std::path::PathBuf;

const PROTOS: [&str; 11] = [
    "route",
    "sequence",
    "control",
    "handover",
    "inter_set",
    "raft",
    "admin",
    "set_admin",
    "backup",
    "forward",
    "audit",
];

/// The messages of the JSON endpoint.
const IN_JSON: [&str; 19] = [
    ".seqsvr.v1.NextRequest",
    ".seqsvr.v1.NextResponse",
    ".seqsvr.v1.NextManyRequest",
    ".seqsvr.v1.NextManyResponse",
    ".seqsvr.v1.LostAttempts",
    ".seqsvr.v1.ItemError",
    ".seqsvr.v1.CurrentRequest",
    ".seqsvr.v1.CurrentResponse",
    ".seqsvr.v1.CurrentManyRequest",
    ".seqsvr.v1.CurrentManyResponse",
    ".seqsvr.v1.Exactness",
    ".seqsvr.v1.AdvanceRequest",
    ".seqsvr.v1.AdvanceResponse",
    ".seqsvr.v1.GetRoutesRequest",
    ".seqsvr.v1.GetRoutesResponse",
    ".seqsvr.v1.Routes",
    ".seqsvr.v1.RouteNode",
    ".seqsvr.v1.RouteRun",
    ".seqsvr.v1.RouteSet",
];

#[expect(clippy::disallowed_methods, reason = "cargo speaks to a build script through the environment")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let files = PROTOS.map(|name| format!("seqsvr/v1/{name}.proto"));
    let mut compiler = protox::Compiler::new([root])?;
    compiler.include_source_info(true).include_imports(true).open_files(files)?;
    let descriptors = PathBuf::from(std::env::var("OUT_DIR")?).join("seqsvr_descriptor.bin");
    let encoded = compiler.encode_file_descriptor_set();
    std::fs::write(descriptors, &encoded)?;
    // Every field is written, also a zero: a response in a shell should show that `prev` is 0.
    let mut json = pbjson_build::Builder::new();
    json.register_descriptors(&encoded)?.emit_fields().ignore_unknown_fields().build(&IN_JSON)?;
    read_numbers_strictly(&PathBuf::from(std::env::var("OUT_DIR")?).join("seqsvr.v1.serde.rs"))?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::Codec")
        .bytes(".seqsvr.v1.RaftMessage")
        .bytes(".seqsvr.v1.SnapshotChunk")
        .bytes(".seqsvr.v1.CreateBackupResponse")
        .bytes(".seqsvr.v1.ForwardRequest")
        .bytes(".seqsvr.v1.ForwardResponse")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// Replaces the library's type for numbers by those of `crate::json`: the library's refuses null, accepts "+5", and its
/// errors are about an untagged enum.
fn read_numbers_strictly(generated: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    const NUMBER: &str = "::pbjson::private::NumberDeserialize<_>";
    let mut code = std::fs::read_to_string(generated)?;
    // In this order: the last one is a part of the others.
    for (library, own) in [
        (format!("Vec<{NUMBER}>"), "crate::json::List<_>"),
        (format!("::std::option::Option<{NUMBER}>"), "::std::option::Option<crate::json::Number<_>>"),
        (NUMBER.to_owned(), "crate::json::Field<_>"),
    ] {
        assert!(code.contains(&library), "pbjson writes {library} no more");
        code = code.replace(&library, own);
    }
    Ok(std::fs::write(generated, code)?)
}
