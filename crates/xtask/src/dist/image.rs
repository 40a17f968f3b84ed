//! Writes the container image as an archive in the OCI layout (image-spec 1.1). The image has a single layer, with the
//! binary and an empty data directory.
//!
//! `podman load` and `docker load` (25 and later) read the archive. Writing the archive needs no registry and no
//! container engine.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Dist, TARGET, run_to_end, sha256};

/// User id and group id of the processes in the container. 65532 is the user "nonroot" of Google's distroless images.
/// This user owns only the data directory.
const USER: &str = "65532:65532";

/// Writes the archive of the container image; returns the archive's file name.
pub(super) fn write(dist: &Dist) -> anyhow::Result<String> {
    let layout = dist.staged.join("image");
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;

    let layer = layer(dist)?;
    // The image format identifies a layer in two places. `diff_ids` has the digest of the uncompressed archive, and
    // `layers` has the digest of the compressed archive.
    let diff_id = sha256(&layer)?;
    run_to_end(Command::new("gzip").args(["-9nf"]).arg(&layer))?;
    let layer = layer.with_extension("tar.gz");
    let layer_digest = sha256(&layer)?;
    let layer_size = fs::metadata(&layer)?.len();
    fs::rename(&layer, blobs.join(&layer_digest))?;

    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "created": super::rfc3339(&dist.epoch)?,
        "config": {
            "User": USER,
            "Entrypoint": ["/seqsvr"],
            "Cmd": ["--help"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Volumes": { "/data": {} },
            "Labels": {
                "org.opencontainers.image.title": "seqsvr",
                "org.opencontainers.image.version": dist.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff_id}")] },
    });
    let config = blob(&blobs, "application/vnd.oci.image.config.v1+json", &config)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": format!("sha256:{layer_digest}"),
            "size": layer_size,
        }],
    });
    let mut manifest = blob(&blobs, "application/vnd.oci.image.manifest.v1+json", &manifest)?;
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": dist.version,
        "io.containerd.image.name": format!("docker.io/library/seqsvr:{}", dist.version),
    });
    fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    fs::write(layout.join("index.json"), index.to_string())?;

    let file = format!("seqsvr-{}-{TARGET}.oci.tar", dist.version);
    dist.tar(&layout, ".", &dist.out.join(&file))?;
    Ok(file)
}

/// Makes the only layer as a tar archive. It contains the binary, and a data directory that belongs to the user of the
/// processes. Returns the path of the archive.
fn layer(dist: &Dist) -> anyhow::Result<std::path::PathBuf> {
    let root = dist.staged.join("layer");
    fs::create_dir_all(root.join("data"))?;
    fs::copy(dist.staged.join("seqsvr"), root.join("seqsvr"))?;
    let tar = dist.staged.join("layer.tar");
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--format=gnu", "--numeric-owner"]).arg(format!("--mtime=@{}", dist.epoch));
    command.args(["-cf"]).arg(&tar).arg("-C").arg(&root);
    // tar uses the same owner for all files that it adds in a run.
    run_to_end(command.args(["--owner=0", "--group=0", "--mode=0755", "seqsvr"]))?;
    let mut command = Command::new("tar");
    command.args(["--format=gnu", "--numeric-owner"]).arg(format!("--mtime=@{}", dist.epoch));
    command.args(["-rf"]).arg(&tar).arg("-C").arg(&root);
    run_to_end(command.args(["--owner=65532", "--group=65532", "--mode=0700", "data"]))?;
    Ok(tar)
}

/// Writes a JSON document to a file that is named by the document's digest. Returns the OCI descriptor of the document.
fn blob(blobs: &Path, media_type: &str, content: &Value) -> anyhow::Result<Value> {
    let text = content.to_string();
    let path = blobs.join("new");
    fs::write(&path, &text)?;
    let digest = sha256(&path)?;
    fs::rename(&path, blobs.join(&digest))?;
    Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": text.len() }))
}
