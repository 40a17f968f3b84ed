//! Kubernetes objects, strictly read from files: an unknown field is an error.

use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, PodTemplateSpec, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object of one of the kinds in the manifests.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Namespace(Namespace),
    StatefulSet(StatefulSet),
    Deployment(Deployment),
    Service(Service),
    Budget(PodDisruptionBudget),
    Policy(NetworkPolicy),
}

/// The content of a kustomization.yaml.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) resources: Vec<PathBuf>,
    /// Directories of kind Component, which change the resources.
    #[serde(default)]
    pub(crate) components: Vec<PathBuf>,
    #[serde(default)]
    pub(crate) config_map_generator: Vec<ConfigMapGenerator>,
    #[serde(default)]
    pub(crate) images: Vec<Image>,
    #[serde(default)]
    pub(crate) patches: Vec<Patch>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigMapGenerator {
    pub(crate) name: String,
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) new_tag: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    pub(crate) path: PathBuf,
    /// The patched objects; without a target, the patch changes the object of its own name.
    pub(crate) target: Option<Target>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) kind: String,
    /// Label and value, as NAME=VALUE.
    pub(crate) label_selector: String,
}

/// Returns the documents of a YAML file.
pub(crate) fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_norway::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .collect()
}

impl Kustomization {
    /// Reads the kustomization of a directory.
    pub(crate) fn read(dir: &Path) -> Kustomization {
        let path = dir.join("kustomization.yaml");
        let mut documents = documents(&path);
        assert_eq!(documents.len(), 1, "{}", path.display());
        serde_json::from_value(documents.remove(0)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Object {
    /// Reads an object from a document of a file.
    pub(crate) fn read(path: &Path, document: Value) -> Object {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "Namespace" => Object::Namespace(typed(path, document)),
            "StatefulSet" => Object::StatefulSet(typed(path, document)),
            "Deployment" => Object::Deployment(typed(path, document)),
            "Service" => Object::Service(typed(path, document)),
            "PodDisruptionBudget" => Object::Budget(typed(path, document)),
            "NetworkPolicy" => Object::Policy(typed(path, document)),
            other => panic!("{}: no rules for objects of kind {other:?}", path.display()),
        }
    }

    /// Returns the kind and the name of the object.
    pub(crate) fn id(&self) -> String {
        let (kind, metadata) = self.kind_and_metadata();
        format!("{kind} {}", metadata.name.as_deref().unwrap_or_default())
    }

    /// Returns whether the object matches the target of a patch.
    pub(crate) fn is_target(&self, target: &Target) -> bool {
        let (kind, metadata) = self.kind_and_metadata();
        let (name, value) = target.label_selector.split_once('=').expect("NAME=VALUE");
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(name));
        kind == target.kind && label.is_some_and(|label| label == value)
    }

    fn kind_and_metadata(&self) -> (&'static str, &ObjectMeta) {
        match self {
            Object::Namespace(it) => ("Namespace", &it.metadata),
            Object::StatefulSet(it) => ("StatefulSet", &it.metadata),
            Object::Deployment(it) => ("Deployment", &it.metadata),
            Object::Service(it) => ("Service", &it.metadata),
            Object::Budget(it) => ("PodDisruptionBudget", &it.metadata),
            Object::Policy(it) => ("NetworkPolicy", &it.metadata),
        }
    }

    /// Returns the template of the object's pods, if it has pods.
    pub(crate) fn pods(&self) -> Option<&PodTemplateSpec> {
        match self {
            Object::StatefulSet(it) => Some(&it.spec.as_ref()?.template),
            Object::Deployment(it) => it.spec.as_ref().map(|spec| &spec.template),
            _ => None,
        }
    }
}

/// Reads a document into its type; a field that is not in the type is an error.
fn typed<T: DeserializeOwned + Serialize>(path: &Path, document: Value) -> T {
    let object: T = serde_json::from_value(document.clone())
        .unwrap_or_else(|error| panic!("{}: {}: {error}", path.display(), document["kind"]));
    let read = serde_json::to_value(&object).unwrap();
    let mut unread = Vec::new();
    collect_unread(&document, &read, String::new(), &mut unread);
    assert!(unread.is_empty(), "{}: {} has no fields {unread:?}", path.display(), document["kind"]);
    object
}

/// Collects the paths of `document` that are not in `read`.
fn collect_unread(document: &Value, read: &Value, at: String, unread: &mut Vec<String>) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                match read.get(name) {
                    Some(inner) => collect_unread(value, inner, format!("{at}.{name}"), unread),
                    None if value.is_null() => {}
                    None => unread.push(format!("{at}.{name}")),
                }
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect_unread(value, &read[index], format!("{at}[{index}]"), unread);
            }
        }
        _ => {}
    }
}
