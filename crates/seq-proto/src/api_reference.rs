//! The page `docs/reference/api.md`: the services of callers and operators with their messages, from the comments of
//! the protos. Services between nodes are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use expect_test::expect_file;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use crate::DESCRIPTORS;
use crate::ports::Port;

const HEAD: &str = "\
# API

The services for callers and for operators, over gRPC; those for callers are served as JSON too \
([how](../operations/callers.md#json-and-plain-text)). A test generates this page from `proto/`: \
`UPDATE_EXPECT=1 cargo test -p seq-proto api`. Refusals have [reasons](reasons.md); [roles](roles.md) has who may call which method.

";

/// Paths of an element in the source information of a file, by the numbers of the descriptors' own fields.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
const METHODS: i32 = 2;
const FIELDS: i32 = 2;
const VALUES: i32 = 2;
const NESTED_MESSAGES: i32 = 3;
const NESTED_ENUMS: i32 = 4;

/// A message or an enumeration with the comments of its file.
enum Declared<'a> {
    Message(&'a DescriptorProto, Vec<i32>, &'a Comments),
    Enum(&'a EnumDescriptorProto, Vec<i32>, &'a Comments),
}

/// Comments of a file, by the paths of the elements that they precede.
struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    /// Returns the comment of the element at `path` as one line that may stand in a table.
    fn line(&self, path: &[i32]) -> String {
        let comment = self.0.get(path).map_or("", String::as_str);
        comment.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
    }
}

/// Returns the path of the element `index` of the list `list` within the element at `path`.
fn below(path: &[i32], list: i32, index: usize) -> Vec<i32> {
    [path, &[list, i32::try_from(index).expect("lists of a file are short")]].concat()
}

/// Adds a message, and everything declared in it, by full names.
fn declare<'a>(
    all: &mut BTreeMap<String, Declared<'a>>,
    scope: &str,
    message: &'a DescriptorProto,
    path: &[i32],
    comments: &'a Comments,
) {
    let name = format!("{scope}.{}", message.name());
    for (index, nested) in message.nested_type.iter().enumerate() {
        declare(all, &name, nested, &below(path, NESTED_MESSAGES, index), comments);
    }
    for (index, nested) in message.enum_type.iter().enumerate() {
        let declared = Declared::Enum(nested, below(path, NESTED_ENUMS, index), comments);
        all.insert(format!("{name}.{}", nested.name()), declared);
    }
    all.insert(name, Declared::Message(message, path.to_vec(), comments));
}

/// Returns the full name of the type of a field whose type is declared in a file; `None` for other fields.
fn declared_type(field: &FieldDescriptorProto) -> Option<&str> {
    matches!(field.r#type(), Type::Message | Type::Enum | Type::Group).then(|| field.type_name())
}

/// Returns the name of a type within its package.
fn short(full: &str) -> &str {
    full.trim_start_matches('.').trim_start_matches("seqsvr.v1.")
}

/// Returns a link to the section of a type.
fn link(full: &str) -> String {
    let name = short(full);
    format!("[{name}](#{})", name.to_lowercase().replace('.', ""))
}

/// Returns the type of a field as the proto has it.
fn type_text(field: &FieldDescriptorProto, all: &BTreeMap<String, Declared<'_>>) -> String {
    let name = match declared_type(field) {
        Some(full) if all.contains_key(full) => link(full),
        Some(full) => format!("`{}`", full.trim_start_matches('.')),
        None => format!("`{}`", field.r#type().as_str_name().trim_start_matches("TYPE_").to_lowercase()),
    };
    match (field.label(), field.proto3_optional()) {
        (Label::Repeated, _) => format!("repeated {name}"),
        (_, true) => format!("optional {name}"),
        _ => name,
    }
}

/// A file of the protos with its comments.
struct File {
    descriptor: FileDescriptorProto,
    comments: Comments,
}

impl File {
    fn new(descriptor: FileDescriptorProto) -> File {
        let locations = descriptor.source_code_info.iter().flat_map(|info| &info.location);
        let commented = locations.filter(|location| location.leading_comments.is_some());
        let comments = commented.map(|location| (location.path.clone(), location.leading_comments().to_owned()));
        File { comments: Comments(comments.collect()), descriptor }
    }
}

/// Returns everything that the files declare, by full names.
fn declared(files: &[File]) -> BTreeMap<String, Declared<'_>> {
    let mut all = BTreeMap::new();
    for File { descriptor, comments } in files {
        let scope = format!(".{}", descriptor.package());
        for (index, message) in descriptor.message_type.iter().enumerate() {
            declare(&mut all, &scope, message, &below(&[], MESSAGES, index), comments);
        }
        for (index, declared) in descriptor.enum_type.iter().enumerate() {
            let path = below(&[], ENUMS, index);
            all.insert(format!("{scope}.{}", declared.name()), Declared::Enum(declared, path, comments));
        }
    }
    all
}

/// Writes the section of a service. Returns the types of its methods.
fn write_service(text: &mut String, files: &[File], name: &str) -> Vec<String> {
    let services = files.iter().flat_map(|file| (0..).zip(&file.descriptor.service).map(move |found| (file, found)));
    let mut named =
        services.filter(|(file, (_, found))| format!("{}.{}", file.descriptor.package(), found.name()) == name);
    let Some((File { comments, .. }, (index, service))) = named.next() else { return Vec::new() };
    let path = below(&[], SERVICES, index);
    writeln!(text, "## {}\n\n{}\n", service.name(), comments.line(&path)).unwrap();
    text.push_str("| method | request | response | |\n|---|---|---|---|\n");
    let mut types = Vec::new();
    for (index, method) in service.method.iter().enumerate() {
        let stream = |is_stream: bool| if is_stream { "stream of " } else { "" };
        let request = format!("{}{}", stream(method.client_streaming()), link(method.input_type()));
        let response = format!("{}{}", stream(method.server_streaming()), link(method.output_type()));
        let comment = comments.line(&below(&path, METHODS, index));
        writeln!(text, "| `{}` | {request} | {response} | {comment} |", method.name()).unwrap();
        types.extend([method.input_type().to_owned(), method.output_type().to_owned()]);
    }
    text.push('\n');
    types
}

/// Writes the section of a message or an enumeration. Returns the types of the fields.
fn write_type(text: &mut String, all: &BTreeMap<String, Declared<'_>>, name: &str) -> Vec<String> {
    let mut types = Vec::new();
    match all.get(name) {
        Some(Declared::Message(message, path, comments)) => {
            writeln!(text, "\n### {}\n\n{}", short(name), comments.line(path)).unwrap();
            if !message.field.is_empty() {
                text.push_str("\n| field | number | type | |\n|---|---|---|---|\n");
            }
            for (index, field) in message.field.iter().enumerate() {
                let comment = comments.line(&below(path, FIELDS, index));
                let (kind, number) = (type_text(field, all), field.number());
                writeln!(text, "| `{}` | {number} | {kind} | {comment} |", field.name()).unwrap();
                types.extend(declared_type(field).map(str::to_owned));
            }
        }
        Some(Declared::Enum(declared, path, comments)) => {
            writeln!(text, "\n### {}\n\n{}\n", short(name), comments.line(path)).unwrap();
            text.push_str("| value | number | |\n|---|---|---|\n");
            for (index, value) in declared.value.iter().enumerate() {
                let comment = comments.line(&below(path, VALUES, index));
                writeln!(text, "| `{}` | {} | {comment} |", value.name(), value.number()).unwrap();
            }
        }
        None => {}
    }
    types
}

#[test]
fn the_reference_lists_every_service_of_callers_and_operators() {
    let descriptors = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let files: Vec<File> = descriptors.file.into_iter().map(File::new).collect();
    let all = declared(&files);
    let mut text = HEAD.to_owned();
    let mut named = Vec::new();
    for port in [Port::Callers, Port::Admin] {
        for service in port.services() {
            named.extend(write_service(&mut text, &files, service));
        }
    }
    text.push_str("## Messages\n\nIn the order in which the methods name them.\n");
    let (mut listed, mut next) = (BTreeSet::new(), 0);
    while let Some(name) = named.get(next).cloned() {
        next += 1;
        if listed.insert(name.clone()) {
            named.extend(write_type(&mut text, &all, &name));
        }
    }
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/api.md")].assert_eq(&text);
}
