//! Checks the names and comments in the protos. Every message, field, oneof, enum, value, service and method must have
//! a comment above it. The comment of a numeric field must state the meaning or the range of the number. The names must
//! follow one style.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use protox::prost_reflect::prost_types::field_descriptor_proto::Type;
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
};

use crate::report::Finding;

// Field numbers in `google.protobuf.FileDescriptorProto` and the messages in it. The path by which a descriptor finds
// the comment of an element consists of these numbers and of indexes.
const FILE_MESSAGE: i32 = 4;
const FILE_ENUM: i32 = 5;
const FILE_SERVICE: i32 = 6;
const MESSAGE_FIELD: i32 = 2;
const MESSAGE_NESTED: i32 = 3;
const MESSAGE_ENUM: i32 = 4;
const MESSAGE_ONEOF: i32 = 8;
const ENUM_VALUE: i32 = 2;
const SERVICE_METHOD: i32 = 2;

/// Texts that show that the comment of a numeric field states the meaning of the number. The comment must contain one
/// of these texts, or a digit, which shows that the comment states a range. The back-tick stands for the name of
/// another field that defines the number.
const COUNTING: &[&str] =
    &["number", "index", "version", "epoch", "uid", "user", "section", "count", "term", "bytes", "since", "`"];

/// Endings of field names that state a unit. The second text of each pair is the word that the comment of such a field
/// must contain.
const UNITS: &[(&str, &str)] = &[("_ms", "millisecond"), ("_seconds", "second"), ("_bytes", "byte")];

pub(super) fn check(dir: &Path, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let names = files(dir)?;
    let mut compiler = protox::Compiler::new([dir])?;
    compiler.include_source_info(true).open_files(&names)?;
    for file in compiler.file_descriptor_set().file {
        lint(&file, findings);
    }
    Ok(())
}

/// Returns the paths of all protos below `dir`, relative to `dir`.
pub(crate) fn files(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    list(dir, dir, &mut names)?;
    names.sort();
    anyhow::ensure!(!names.is_empty(), "{} holds no .proto file", dir.display());
    Ok(names)
}

fn list(root: &Path, dir: &Path, names: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            names.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

fn lint(file: &FileDescriptorProto, findings: &mut Vec<Finding>) {
    let mut linter = Linter { path: format!("proto/{}", file.name()), places: places(file), findings };
    let package = file.package();
    if !file.name().starts_with(&format!("{}/", package.replace('.', "/"))) || !is_versioned(package) {
        linter.find(
            &[],
            format!("package `{package}`: it ends in a version, as `seqsvr.v1`, and the file lies in its directory"),
        );
    }
    for (index, message) in (0..).zip(&file.message_type) {
        linter.message(&[FILE_MESSAGE, index], message);
    }
    for (index, item) in (0..).zip(&file.enum_type) {
        linter.enumeration(&[FILE_ENUM, index], item);
    }
    for (index, service) in (0..).zip(&file.service) {
        linter.service(&[FILE_SERVICE, index], service);
    }
}

/// Returns, for each element of a proto file, its line and the comment above it. The key is the path of the element in
/// the file descriptor.
fn places(file: &FileDescriptorProto) -> HashMap<Vec<i32>, (usize, String)> {
    let locations = file.source_code_info.iter().flat_map(|info| &info.location);
    let place = |span: &[i32]| span.first().map_or(0, |line| *line as usize + 1);
    locations.map(|at| (at.path.clone(), (place(&at.span), at.leading_comments().to_owned()))).collect()
}

fn is_versioned(package: &str) -> bool {
    let version = package.rsplit('.').next().and_then(|last| last.strip_prefix('v'));
    version.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
}

struct Linter<'a> {
    path: String,
    places: HashMap<Vec<i32>, (usize, String)>,
    findings: &'a mut Vec<Finding>,
}

impl Linter<'_> {
    fn find(&mut self, at: &[i32], message: String) {
        let line = self.places.get(at).map_or(0, |(line, _)| *line);
        self.findings.push(Finding::new(&self.path, line, message));
    }

    fn commented(&mut self, at: &[i32], name: &str) -> String {
        let comment = self.places.get(at).map_or("", |(_, comment)| comment).trim().to_owned();
        if comment.is_empty() {
            self.find(at, format!("`{name}` has no comment above it"));
        }
        comment
    }

    fn styled(&mut self, at: &[i32], name: &str, style: &str, good: bool) {
        if !good {
            self.find(at, format!("`{name}` is not {style}"));
        }
    }

    fn message(&mut self, at: &[i32], message: &DescriptorProto) {
        self.commented(at, message.name());
        self.styled(at, message.name(), "UpperCamelCase", is_camel(message.name()));
        for (index, field) in (0..).zip(&message.field) {
            self.field(&[at, &[MESSAGE_FIELD, index]].concat(), field);
        }
        // A field marked `optional` has a synthetic oneof.
        let unwritten = |index| message.field.iter().any(|f| f.proto3_optional() && f.oneof_index == Some(index));
        for (index, oneof) in (0..).zip(&message.oneof_decl).filter(|(index, _)| !unwritten(*index)) {
            self.commented(&[at, &[MESSAGE_ONEOF, index]].concat(), oneof.name());
        }
        for (index, nested) in (0..).zip(&message.nested_type) {
            self.message(&[at, &[MESSAGE_NESTED, index]].concat(), nested);
        }
        for (index, nested) in (0..).zip(&message.enum_type) {
            self.enumeration(&[at, &[MESSAGE_ENUM, index]].concat(), nested);
        }
    }

    fn field(&mut self, at: &[i32], field: &FieldDescriptorProto) {
        let name = field.name();
        let comment = self.commented(at, name).to_lowercase();
        self.styled(at, name, "snake_case", is_snake(name));
        if comment.is_empty() || !is_number(field.r#type()) {
            return;
        }
        let counts = COUNTING.iter().any(|word| comment.contains(word));
        if !counts && !comment.contains(|c: char| c.is_ascii_digit()) {
            self.find(at, format!("`{name}` is a number, and its comment states neither what it counts nor its range"));
        }
        if let Some((_, unit)) = UNITS.iter().find(|(end, unit)| name.ends_with(end) && !comment.contains(unit)) {
            self.find(at, format!("`{name}`: its comment does not name the unit, {unit}s"));
        }
    }

    fn enumeration(&mut self, at: &[i32], item: &EnumDescriptorProto) {
        self.commented(at, item.name());
        for (index, value) in (0..).zip(&item.value) {
            let at = [at, &[ENUM_VALUE, index]].concat();
            self.commented(&at, value.name());
            self.styled(&at, value.name(), "UPPER_CASE", value.name() == value.name().to_uppercase());
        }
    }

    fn service(&mut self, at: &[i32], service: &ServiceDescriptorProto) {
        self.commented(at, service.name());
        self.styled(at, service.name(), "named ...Service", service.name().ends_with("Service"));
        for (index, method) in (0..).zip(&service.method) {
            let at = [at, &[SERVICE_METHOD, index]].concat();
            self.commented(&at, method.name());
            self.styled(&at, method.name(), "UpperCamelCase", is_camel(method.name()));
        }
    }
}

fn is_snake(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn is_camel(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_number(kind: Type) -> bool {
    !matches!(kind, Type::Bool | Type::String | Type::Bytes | Type::Message | Type::Group | Type::Enum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lints a proto file of the package `package` that has the text `body` after its head. Returns the findings.
    fn findings(package: &str, body: &str) -> Vec<String> {
        let file = format!("syntax = \"proto3\";\npackage {package};\n{body}");
        let parsed = protox::compile_text(&file);
        let mut findings = Vec::new();
        lint(&parsed, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    mod protox {
        use super::FileDescriptorProto;

        /// Compiles a text as `seqsvr/v1/a.proto`, with its comments.
        pub(super) fn compile_text(text: &str) -> FileDescriptorProto {
            let file = ::protox::file::File::from_source("seqsvr/v1/a.proto", text).unwrap();
            file.file_descriptor_proto().clone()
        }
    }

    #[test]
    fn a_documented_file_passes() {
        let body = "// One.\nmessage A {\n  // Time in milliseconds, 0 ..= 9.\n  uint64 time_ms = 1;\n}\n";
        assert_eq!(findings("seqsvr.v1", body), Vec::<String>::new());
    }

    #[test]
    fn each_planted_fault_is_found_on_its_line() {
        let at = "proto/seqsvr/v1/a.proto";
        for (body, expected) in [
            ("message A {}", ":3: `A` has no comment above it"),
            ("// One.\nmessage A { string b = 1; }", ":4: `b` has no comment above it"),
            ("// One.\nmessage A {\n// Name.\nstring bC = 1; }", ":6: `bC` is not snake_case"),
            ("// One.\nmessage A {\n// The value.\nuint64 b = 1; }", "`b` is a number, and its comment"),
            ("// One.\nmessage A {\n// Number of it.\nuint64 b_ms = 1; }", "its comment does not name the unit"),
            ("// One.\nmessage A { oneof b {\n// Name.\nstring c = 1; } }", ":4: `b` has no comment above it"),
            ("// One.\nenum E { NONE = 0; }", ":4: `NONE` has no comment above it"),
            ("// One.\nenum E {\n// None.\nNone = 0; }", "`None` is not UPPER_CASE"),
            ("// One.\nmessage A {}\n// Two.\nservice B {}", "`B` is not named ...Service"),
            ("// One.\nmessage A {}\n// Two.\nservice BService { rpc C(A) returns (A); }", "`C` has no comment"),
            ("// One.\nmessage A {\n message B {} }", ":5: `B` has no comment above it"),
        ] {
            let found = findings("seqsvr.v1", body);
            assert_eq!(found.len(), 1, "{body}: {found:?}");
            assert!(found[0].starts_with(at) && found[0].contains(expected), "{body}: {found:?}");
        }
    }

    #[test]
    fn a_package_without_a_version_or_in_another_directory_is_found() {
        for package in ["seqsvr", "seqsvr.v2", "other.v1"] {
            let found = findings(package, "");
            assert!(found[0].contains(&format!("package `{package}`")), "{found:?}");
        }
    }
}
