//! Compares the protos with the protos of the last release. No message or method that nodes of the last release send or
//! expect may have changed.
//!
//! Nodes of two successive releases run together during an upgrade. `proto/released.txt` describes the protos of the
//! last release, with one line for each field, enum value and method. A field or value of this file may be missing from
//! the current protos only if the current protos reserve its number. New fields, values and methods are allowed. A
//! field may become `optional`, because its encoding stays the same, but then the receiver must expect that nodes of
//! the last release omit the field if its value is zero. At every release, `cargo xtask wire --write` writes the file
//! anew.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use clap::Args;
use protox::prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ServiceDescriptor,
};

use crate::generate;
use crate::report::{self, Finding};
use crate::tidy;

/// Path of the description of the last release.
const RELEASED: &str = "proto/released.txt";

/// Arguments of `wire`.
#[derive(Args)]
pub(crate) struct WireArgs {
    /// Replace the list with the current protos, at a release.
    #[arg(long)]
    write: bool,
}

/// Compares the protos with the last release, or, with `--write`, replaces the description of the last release.
pub(crate) fn run(root: &Path, args: &WireArgs) -> anyhow::Result<()> {
    let surface = Surface::of(&compile(&root.join("proto"))?);
    let list = root.join(RELEASED);
    if args.write {
        let lines: String = surface.lines.iter().map(|line| format!("{line}\n")).collect();
        return std::fs::write(&list, lines).with_context(|| format!("writing {RELEASED}"));
    }
    let released = std::fs::read_to_string(&list).with_context(|| format!("reading {RELEASED}"))?;
    let mut findings = surface.broken(&released);
    findings.extend(generate::check(root)?);
    report::conclude("wire", findings)
}

/// Runs the check as a step of the gate.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    run(root, &WireArgs { write: false })
}

fn compile(dir: &Path) -> anyhow::Result<DescriptorPool> {
    let mut compiler = protox::Compiler::new([dir])?;
    compiler.open_files(tidy::proto_files(dir)?)?;
    Ok(compiler.descriptor_pool())
}

/// Fields, values and methods of the protos, on which nodes of another release depend.
#[derive(Debug, Default)]
struct Surface {
    /// One line for each field, value and method.
    lines: BTreeSet<String>,
    /// Prefixes of the lines of fields and values whose number the protos reserve.
    reserved: BTreeSet<String>,
}

impl Surface {
    fn of(pool: &DescriptorPool) -> Surface {
        let mut surface = Surface::default();
        for message in pool.all_messages() {
            surface.message(&message);
        }
        for item in pool.all_enums() {
            surface.enumeration(&item);
        }
        for service in pool.services() {
            surface.service(&service);
        }
        surface
    }

    fn message(&mut self, message: &MessageDescriptor) {
        let name = message.full_name();
        self.lines.extend(message.fields().map(|field| format!("field {name} {}", describe(&field))));
        for number in message.reserved_ranges().flatten() {
            self.reserved.insert(format!("field {name} {number} "));
        }
    }

    fn enumeration(&mut self, item: &EnumDescriptor) {
        let name = item.full_name();
        self.lines.extend(item.values().map(|value| format!("value {name} {} {}", value.number(), value.name())));
        for number in item.reserved_ranges().flatten() {
            self.reserved.insert(format!("value {name} {number} "));
        }
    }

    fn service(&mut self, service: &ServiceDescriptor) {
        let of = |method: MethodDescriptor| {
            let stream = |is_stream: bool| if is_stream { "stream " } else { "" };
            let (takes, gives) = (stream(method.is_client_streaming()), stream(method.is_server_streaming()));
            let (input, output) = (method.input(), method.output());
            format!("method {} {takes}{} {gives}{}", method.full_name(), input.full_name(), output.full_name())
        };
        self.lines.extend(service.methods().map(of));
    }

    /// Returns a finding for each line of `released` that describes a field, value or method that the current protos
    /// neither have nor reserve.
    fn broken(&self, released: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (number, line) in (1..).zip(released.lines()) {
            let holds = self.lines.contains(line) || optional(line).is_some_and(|line| self.lines.contains(&line));
            if holds || self.reserved.iter().any(|start| line.starts_with(start)) {
                continue;
            }
            let message = format!(
                "the last release has `{line}`, and the protos do not: nodes of both run together during an upgrade; add a field \
                 beside it, or reserve its number once no release reads it"
            );
            findings.push(Finding::new(RELEASED, number, message));
        }
        findings
    }
}

/// Returns the line that describes the field of `line` after the field became `optional`; `None` if `line` does not
/// describe a plain field.
fn optional(line: &str) -> Option<String> {
    let words: Vec<_> = line.split(' ').collect();
    let ["field", message, number, name, kind] = words[..] else { return None };
    Some(format!("field {message} {number} {name} optional {kind}"))
}

/// Returns the number, name, cardinality, type and oneof of a field as text. The name is included because JSON messages
/// contain the names of fields.
fn describe(field: &FieldDescriptor) -> String {
    let cardinality = match field.cardinality() {
        Cardinality::Repeated => "repeated ",
        _ if field.field_descriptor_proto().proto3_optional() => "optional ",
        _ => "",
    };
    let kind = match field.kind() {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(item) => item.full_name().to_owned(),
        scalar => format!("{scalar:?}"),
    };
    let oneof = field.containing_oneof().filter(|_| cardinality.is_empty());
    let oneof = oneof.map(|oneof| format!(" in {}", oneof.name())).unwrap_or_default();
    format!("{} {} {cardinality}{kind}{oneof}", field.number(), field.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "
        message A { uint64 a = 1; repeated string b = 2; optional bool c = 3; oneof role { E d = 4; A e = 5; } }
        enum E { NONE = 0; ONE = 1; }
        service S { rpc Do(A) returns (stream A); }";

    fn surface(body: &str) -> Surface {
        let file =
            protox::file::File::from_source("a.proto", &format!("syntax = \"proto3\"; package p; {body}")).unwrap();
        let files =
            protox::prost_reflect::prost_types::FileDescriptorSet { file: vec![file.file_descriptor_proto().clone()] };
        let mut compiler = protox::Compiler::with_file_resolver(Texts(files));
        compiler.open_file("a.proto").unwrap();
        Surface::of(&compiler.descriptor_pool())
    }

    /// A file in memory.
    struct Texts(protox::prost_reflect::prost_types::FileDescriptorSet);

    impl protox::file::FileResolver for Texts {
        fn open_file(&self, _: &str) -> Result<protox::file::File, protox::Error> {
            Ok(protox::file::File::from_file_descriptor_proto(self.0.file[0].clone()))
        }
    }

    fn broken(body: &str) -> Vec<String> {
        let released: String = surface(RELEASE).lines.iter().map(|line| format!("{line}\n")).collect();
        let between = |message: &str| message.split('`').nth(1).unwrap().to_owned();
        surface(body).broken(&released).iter().map(|finding| between(&finding.message)).collect()
    }

    #[test]
    fn what_a_release_has_is_listed_with_its_types() {
        let lines: Vec<String> = surface(RELEASE).lines.into_iter().collect();
        let expected = [
            "field p.A 1 a uint64",
            "field p.A 2 b repeated string",
            "field p.A 3 c optional bool",
            "field p.A 4 d p.E in role",
            "field p.A 5 e p.A in role",
            "method p.S.Do p.A stream p.A",
            "value p.E 0 NONE",
            "value p.E 1 ONE",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn additions_and_reserved_numbers_break_nothing() {
        let grown = RELEASE
            .replace("uint64 a = 1;", "optional uint64 a = 1;")
            .replace("optional bool c = 3;", "reserved 3; uint64 f = 6;")
            .replace("ONE = 1;", "reserved 1; TWO = 2;")
            .replace("(stream A);", "(stream A); rpc More(A) returns (B);");
        assert_eq!(broken(&format!("{grown} message B {{ A a = 1; }}")), Vec::<String>::new());
    }

    #[test]
    fn each_planted_change_is_found() {
        for (from, to, line) in [
            ("uint64 a = 1;", "", "field p.A 1 a uint64"),
            ("uint64 a = 1;", "uint64 a = 7;", "field p.A 1 a uint64"),
            ("uint64 a = 1;", "uint32 a = 1;", "field p.A 1 a uint64"),
            ("uint64 a = 1;", "uint64 z = 1;", "field p.A 1 a uint64"),
            ("uint64 a = 1;", "repeated uint64 a = 1;", "field p.A 1 a uint64"),
            ("uint64 a = 1;", "optional uint32 a = 1;", "field p.A 1 a uint64"),
            ("repeated string b", "string b", "field p.A 2 b repeated string"),
            ("optional bool c", "bool c", "field p.A 3 c optional bool"),
            ("oneof role { E d = 4; A e = 5; }", "oneof role { E d = 4; } A e = 5;", "field p.A 5 e p.A in role"),
            ("ONE = 1;", "TWO = 1;", "value p.E 1 ONE"),
            ("rpc Do(A)", "rpc Do(stream A)", "method p.S.Do p.A stream p.A"),
            ("rpc Do(A)", "rpc Did(A)", "method p.S.Do p.A stream p.A"),
        ] {
            assert_eq!(broken(&RELEASE.replace(from, to)), [line], "{from} -> {to}");
        }
    }
}
