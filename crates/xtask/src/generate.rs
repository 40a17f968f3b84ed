//! Generates Rust code from the protos into the repository, and checks that the generated code in the repository is up
//! to date.
//!
//! The generated code is in the repository so that a clean build does not compile the generators, which are about sixty
//! crates. The library protox replaces the program `protoc`. So the result does not depend on installed tools, and the
//! same protos with the same `Cargo.lock` give the same bytes on every machine.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::report::Finding;
use crate::tidy;

/// Directory of the generated files.
const DIR: &str = "crates/seq-proto/src/generated";

/// Generated file with the types of the messages and the services. The generator chooses the name.
const CODE: &str = "seqsvr.v1.rs";

/// Generated file with the JSON encoding of the messages. The generator chooses the name.
const JSON: &str = "seqsvr.v1.serde.rs";

/// Generated file with the descriptors of all messages and services, including their comments.
const DESCRIPTORS: &str = "descriptors.bin";

/// The messages of the JSON endpoint.
const IN_JSON: [&str; 43] = [
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
    ".seqsvr.v1.NextIdsRequest",
    ".seqsvr.v1.NextIdsResponse",
    ".seqsvr.v1.IdRun",
    ".seqsvr.v1.CurrentIdRequest",
    ".seqsvr.v1.CurrentIdResponse",
    ".seqsvr.v1.AdvanceIdRequest",
    ".seqsvr.v1.AdvanceIdResponse",
    ".seqsvr.v1.DecodeIdRequest",
    ".seqsvr.v1.DecodeIdResponse",
    ".seqsvr.v1.ListSeriesRequest",
    ".seqsvr.v1.ListSeriesResponse",
    ".seqsvr.v1.Series",
    ".seqsvr.v1.StoredSeries",
    ".seqsvr.v1.Shape",
    ".seqsvr.v1.CounterShape",
    ".seqsvr.v1.TimedShape",
    ".seqsvr.v1.Lanes",
    ".seqsvr.v1.Hashing",
    ".seqsvr.v1.TickClock",
    ".seqsvr.v1.NextKeyRequest",
    ".seqsvr.v1.NextKeysRequest",
    ".seqsvr.v1.CurrentKeyRequest",
    ".seqsvr.v1.CurrentKeysRequest",
    ".seqsvr.v1.AdvanceKeyRequest",
];

/// A generated file: its name and content.
type File = (&'static str, Vec<u8>);

/// Writes the generated files anew.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let dir = root.join(DIR);
    fs::create_dir_all(&dir).with_context(|| format!("creating {DIR}"))?;
    for (name, content) in generate(root)? {
        // An unchanged file is not written, so that it keeps its modification time. Otherwise cargo would compile every
        // crate that depends on the file again.
        if fs::read(dir.join(name)).ok().as_ref() != Some(&content) {
            fs::write(dir.join(name), content).with_context(|| format!("writing {DIR}/{name}"))?;
        }
    }
    Ok(())
}

/// Returns a finding for each generated file in the repository that differs from a file newly generated from the
/// protos.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let stale = |(name, content): File| {
        let path = format!("{DIR}/{name}");
        let is_fresh = fs::read(root.join(&path)).is_ok_and(|found| found == content);
        (!is_fresh).then(|| Finding::new(&path, 0, "the protos give another file: run `cargo xtask generate`"))
    };
    Ok(generate(root)?.into_iter().filter_map(stale).collect())
}

/// Generates the files from the protos, and returns them.
fn generate(root: &Path) -> anyhow::Result<[File; 3]> {
    let protos = root.join("proto");
    let mut compiler = protox::Compiler::new([&protos])?;
    compiler.include_source_info(true).include_imports(true).open_files(tidy::proto_files(&protos)?)?;
    let descriptors = compiler.encode_file_descriptor_set();

    // The JSON of a message has every field, even if the field is 0, so that a user of curl sees that `prev` is 0.
    let mut json = pbjson_build::Builder::new();
    json.register_descriptors(&descriptors)?.emit_fields().ignore_unknown_fields();
    let mut json = json.generate(&IN_JSON, |_| Ok(Vec::new()))?;
    ensure!(json.len() == 1, "messages of {} packages have JSON", json.len());
    let json = read_numbers_strictly(String::from_utf8(json.remove(0).1)?)?;

    let out = tempfile::tempdir().context("making a directory for the generator")?;
    tonic_prost_build::configure()
        .out_dir(out.path())
        .codec_path("crate::codec::Codec")
        .bytes(".seqsvr.v1.RaftMessage")
        .bytes(".seqsvr.v1.SnapshotChunk")
        .bytes(".seqsvr.v1.CreateBackupResponse")
        .bytes(".seqsvr.v1.ForwardRequest")
        .bytes(".seqsvr.v1.ForwardResponse")
        .compile_fds(compiler.file_descriptor_set())?;
    let code = fs::read(out.path().join(CODE)).with_context(|| format!("reading the generated {CODE}"))?;
    Ok([(CODE, code), (JSON, json.into_bytes()), (DESCRIPTORS, descriptors)])
}

/// Replaces the type with which pbjson parses numbers by types of `seq-proto/src/json.rs`. pbjson's type refuses null,
/// accepts "+5", and has error messages about an untagged enum.
fn read_numbers_strictly(mut code: String) -> anyhow::Result<String> {
    const NUMBER: &str = "::pbjson::private::NumberDeserialize<_>";
    // The replacements must be in this order, because the text of the last replacement is a part of the texts of the
    // two before it.
    for (library, own) in [
        (format!("Vec<{NUMBER}>"), "crate::json::List<_>"),
        (format!("::std::option::Option<{NUMBER}>"), "::std::option::Option<crate::json::Number<_>>"),
        (NUMBER.to_owned(), "crate::json::Field<_>"),
    ] {
        ensure!(code.contains(&library), "pbjson writes {library} no more");
        code = code.replace(&library, own);
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_files_are_those_of_the_protos() {
        let findings = check(&crate::root()).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
    }

    #[test]
    fn a_stale_file_is_found_and_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let protos = dir.path().join("proto/seqsvr/v1");
        fs::create_dir_all(&protos).unwrap();
        for name in tidy::proto_files(&crate::root().join("proto")).unwrap() {
            fs::copy(crate::root().join("proto").join(&name), dir.path().join("proto").join(&name)).unwrap();
        }
        run(dir.path()).unwrap();
        assert!(check(dir.path()).unwrap().is_empty());

        let proto = protos.join("sequence.proto");
        let text = fs::read_to_string(&proto).unwrap();
        fs::write(&proto, format!("{text}\n// A message that is new.\nmessage New {{}}\n")).unwrap();
        let found: Vec<_> = check(dir.path()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("seqsvr.v1.rs") && found[0].ends_with("run `cargo xtask generate`"), "{found:?}");
        run(dir.path()).unwrap();
        assert!(check(dir.path()).unwrap().is_empty());
    }
}
