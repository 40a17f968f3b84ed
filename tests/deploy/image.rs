//! The container image that `cargo xtask dist` builds.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::machine::sh;

/// The file system of the image, unpacked.
pub(crate) struct Image {
    root: PathBuf,
    config: Value,
}

impl Image {
    /// Unpacks the image in the directory `PACKAGES`, or in target/packages.
    pub(crate) fn unpack(to: &Path) -> Image {
        let packages = std::env::var_os("PACKAGES")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/packages"), PathBuf::from);
        let files = fs::read_dir(&packages).unwrap_or_else(|error| panic!("{}: {error}", packages.display()));
        let archive =
            files.map(|entry| entry.unwrap().path()).find(|path| path.to_string_lossy().ends_with(".oci.tar"));
        let archive = archive.unwrap_or_else(|| panic!("no image in {}", packages.display()));
        let layout = to.join("layout");
        fs::create_dir_all(&layout).unwrap();
        sh(&format!("tar -xf {} -C {}", archive.display(), layout.display()));
        let blob = |digest: &Value| {
            let (algorithm, hash) = digest.as_str().unwrap().split_once(':').unwrap();
            layout.join("blobs").join(algorithm).join(hash)
        };
        let read = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        let index = read(&layout.join("index.json"));
        let manifest = read(&blob(&index["manifests"][0]["digest"]));
        let config = read(&blob(&manifest["config"]["digest"]));
        let root = to.join("root");
        fs::create_dir_all(&root).unwrap();
        for (layer, diff) in
            manifest["layers"].as_array().unwrap().iter().zip(config["rootfs"]["diff_ids"].as_array().unwrap())
        {
            let path = blob(&layer["digest"]);
            assert_eq!(fs::metadata(&path).unwrap().len(), layer["size"].as_u64().unwrap());
            let layer = to.join("layer.tar");
            sh(&format!("cp {} {}.gz", path.display(), layer.display()));
            sh(&format!("gzip -df {}.gz", layer.display()));
            let sum = sh(&format!("sha256sum {}", layer.display()));
            assert_eq!(Some(sum.split(' ').next().unwrap()), diff.as_str().unwrap().strip_prefix("sha256:"));
            sh(&format!("tar -xf {} -C {}", layer.display(), root.display()));
        }
        let mib = |path: &Path| fs::metadata(path).unwrap().len() as f64 / f64::from(1 << 20);
        println!("image: {:.1} MiB, unpacked {:.1} MiB", mib(&archive), mib(&root.join("seqsvr")));
        Image { root, config }
    }

    /// Checks that the image only contains the binary, and that its user is not root.
    pub(crate) fn check(&self) {
        let mut files: Vec<String> =
            fs::read_dir(&self.root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        assert_eq!(files, ["data", "seqsvr"]);
        let config = &self.config["config"];
        assert_eq!((&config["User"], &config["Entrypoint"][0]), (&"65532:65532".into(), &"/seqsvr".into()));
    }

    pub(crate) fn binary(&self) -> PathBuf {
        self.root.join("seqsvr")
    }

    pub(crate) fn copy_to(&self, root: &Path) {
        sh(&format!("cp -a {} {}", self.root.display(), root.display()));
    }
}
