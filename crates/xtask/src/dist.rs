//! Builds the packages. They are a tar.gz and a .deb, each with the static binary, its manual pages, shell completions
//! and systemd units, a container image with only the binary, and the list of the binary's components.
//!
//! **Invariant:** the files depend only on the commit and the toolchain, not on the time, the user or the directory of
//! the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;
use sha2::{Digest, Sha256};

mod image;
pub(crate) mod sbom;

/// Name of the package and of its crate.
const PACKAGE: &str = "seqsvr";

/// Version of cargo-deb that makes the packages.
const CARGO_DEB: &str = "3.8.0";

/// The only platform of the packages.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Args)]
pub(crate) struct DistArgs {
    /// Directory for the packages.
    #[arg(long, value_name = "DIR", default_value = "target/packages")]
    out: PathBuf,
    /// Packages this binary instead of building one, for tests of the packages themselves. The list of the binary's
    /// components is left out, because its components are not known.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Revision of the packages, which is the number after the version. It increases with each rebuild of the same
    /// version.
    #[arg(long, value_name = "N", default_value_t = 1)]
    revision: u32,
}

/// A build of the packages.
struct Dist {
    root: PathBuf,
    /// Directory for the packages.
    out: PathBuf,
    /// Directory with the files to be packaged, which are the binary, the files that the binary generates, and
    /// documents.
    staged: PathBuf,
    version: String,
    /// Modification time of all packaged files, in seconds since 1970. See [`epoch`].
    epoch: String,
}

/// Builds all packages.
pub(crate) fn run(root: &Path, args: &DistArgs) -> anyhow::Result<()> {
    let out = std::path::absolute(&args.out)?;
    let staged = crate::target_dir(root).join("staged");
    for dir in [&out, &staged] {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let epoch = epoch(root)?;
    let version = version(root)?;
    let dist = Dist { root: root.to_owned(), out, staged, version, epoch };
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => dist.build()?,
    };
    dist.stage(&binary)?;
    let sbom = args.binary.is_none().then(|| dist.sbom()).transpose()?;
    let files = [dist.archive()?, dist.deb(args.revision)?, image::write(&dist)?].into_iter().chain(sbom);
    let sums = dist.out.join("SHA256SUMS");
    let mut text = String::new();
    for file in files {
        let path = dist.out.join(&file);
        let size = fs::metadata(&path)?.len();
        println!("{:>7.1} MiB  {}", size as f64 / f64::from(1 << 20), path.display());
        text.push_str(&format!("{}  {file}\n", sha256(&path)?));
    }
    fs::write(&sums, text)?;
    println!("             {}", sums.display());
    Ok(())
}

impl Dist {
    /// Builds the binary. The binary is static, so that it runs on any Linux distribution and in an empty container
    /// image. A static binary can resolve host names, because since version 2.34 glibc contains its resolvers for files
    /// and DNS.
    fn build(&self) -> anyhow::Result<PathBuf> {
        let dir = crate::target_dir(&self.root).join("dist-static");
        let cargo_home = text_of(Command::new("sh").args(["-c", "echo ${CARGO_HOME:-$HOME/.cargo}"]))?;
        let places = [(self.root.display().to_string(), "/seqsvr"), (cargo_home, "/cargo")];
        let rust = places.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
        let rust: Vec<String> = ["-Ctarget-feature=+crt-static".to_owned()].into_iter().chain(rust).collect();
        let c: Vec<String> = places.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
        let mut cargo = crate::cargo(&self.root);
        cargo.args([
            "build",
            "--locked",
            "--profile",
            "dist",
            "--package",
            "seqsvr",
            "--target",
            TARGET,
            "--target-dir",
        ]);
        cargo.arg(&dir).env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env("CFLAGS", c.join(" "));
        let status = cargo.env("SOURCE_DATE_EPOCH", &self.epoch).status().context("starting cargo")?;
        ensure!(status.success(), "cargo build: {status}");
        Ok(dir.join(TARGET).join("dist/seqsvr"))
    }

    /// Fills the directory `staged`. Copies the binary and the changelog, and runs the binary to write its manual pages
    /// and completions.
    fn stage(&self, binary: &Path) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.staged)?;
        for dir in ["man", "completions", "doc"] {
            fs::create_dir_all(self.staged.join(dir))?;
        }
        let seqsvr = self.staged.join("seqsvr");
        fs::copy(binary, &seqsvr).with_context(|| format!("cannot copy {}", binary.display()))?;
        run_to_end(Command::new("strip").args(["--strip-all"]).arg(&seqsvr))?;
        run_to_end(Command::new(&seqsvr).args(["man", "--dir"]).arg(self.staged.join("man")))?;
        for (shell, file) in [("bash", "seqsvr"), ("zsh", "_seqsvr"), ("fish", "seqsvr.fish")] {
            let completions = text_of(Command::new(&seqsvr).args(["completions", shell]))?;
            fs::write(self.staged.join("completions").join(file), completions + "\n")?;
        }
        // The Debian package includes all files of the directory of documents, so the directory must not be empty.
        fs::copy(self.root.join("CHANGELOG.md"), self.staged.join("doc/CHANGELOG.md"))?;
        Ok(())
    }

    /// Writes the list of the binary's components into the directory of the packages, and copies it to the documents
    /// that the packages contain. Returns the file name of the list.
    fn sbom(&self) -> anyhow::Result<String> {
        let file = sbom::name(&self.version);
        sbom::write(&self.root, &self.epoch, &self.out.join(&file))?;
        fs::copy(self.out.join(&file), self.staged.join("doc/seqsvr.cdx.json"))?;
        Ok(file)
    }

    /// Makes the tar.gz, which is for distributions without Debian packages. Returns its file name.
    fn archive(&self) -> anyhow::Result<String> {
        let name = format!("seqsvr-{}-{TARGET}", self.version);
        let dir = self.staged.join("archive").join(&name);
        fs::create_dir_all(&dir)?;
        let deploy = self.root.join("deploy");
        for (from, to) in [
            (self.staged.join("seqsvr"), "seqsvr"),
            (self.staged.join("man"), "man"),
            (self.staged.join("completions"), "completions"),
            (deploy.join("systemd"), "systemd"),
            (deploy.join("config"), "config"),
            (deploy.join("prometheus"), "prometheus"),
            (self.root.join("README.md"), "README.md"),
            (self.staged.join("doc"), "doc"),
            (self.root.join("LICENSE"), "LICENSE"),
        ] {
            run_to_end(Command::new("cp").arg("-r").arg(from).arg(dir.join(to)))?;
        }
        let file = format!("{name}.tar.gz");
        let tar = self.out.join(format!("{name}.tar"));
        self.tar(&self.staged.join("archive"), &name, &tar)?;
        // Without a name and a time in the gzip header.
        run_to_end(Command::new("gzip").args(["-9nf"]).arg(&tar))?;
        Ok(file)
    }

    /// Packs `what`, a path in the directory `dir`, into the archive `to`. Owners, times and the order of files in the
    /// archive do not depend on the machine.
    fn tar(&self, dir: &Path, what: &str, to: &Path) -> anyhow::Result<()> {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+w,go-w"]);
        tar.arg(format!("--mtime=@{}", self.epoch)).arg("-cf").arg(to).arg("-C").arg(dir).arg(what);
        run_to_end(&mut tar)
    }

    /// Makes the Debian package that `[package.metadata.deb]` in the crate's Cargo.toml describes. Returns its file
    /// name.
    fn deb(&self, revision: u32) -> anyhow::Result<String> {
        let file = format!("{PACKAGE}_{}-{revision}_amd64.deb", self.version);
        let mut cargo = crate::cargo(&self.root);
        cargo.args(["deb", "--package", PACKAGE, "--no-build", "--no-strip", "--no-separate-debug-symbols"]);
        cargo.args(["--deb-revision", &revision.to_string(), "--output"]).arg(self.out.join(&file));
        cargo.env("SOURCE_DATE_EPOCH", &self.epoch).env("CARGO_TARGET_DIR", crate::target_dir(&self.root));
        // cargo-deb warns about each file that is not below target/release.
        run_to_end(&mut cargo)
            .with_context(|| format!("is it installed? cargo install --locked cargo-deb@{CARGO_DEB}"))?;
        Ok(file)
    }
}

/// Returns the modification time for all packaged files, in seconds since 1970. It is the value of the environment
/// variable `SOURCE_DATE_EPOCH`, or the time of the last commit if the variable is not set.
fn epoch(root: &Path) -> anyhow::Result<String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => {
            ensure!(epoch.parse::<u64>().is_ok(), "SOURCE_DATE_EPOCH: {epoch:?} is no number of seconds");
            Ok(epoch)
        }
        Err(_) => text_of(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"])),
    }
}

fn rfc3339(epoch: &str) -> anyhow::Result<String> {
    text_of(Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"]).arg(format!("@{epoch}")))
        .context("the time of the commit")
}

/// Returns the version of all crates.
fn version(root: &Path) -> anyhow::Result<String> {
    let metadata = cargo_metadata::MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec()?;
    let seqsvr = metadata
        .packages
        .iter()
        .find(|package| package.name == PACKAGE)
        .with_context(|| format!("no crate {PACKAGE}"))?;
    Ok(seqsvr.version.to_string())
}

fn sha256(path: &Path) -> anyhow::Result<String> {
    let hash = Sha256::digest(fs::read(path)?);
    Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs a command that must succeed.
fn run_to_end(command: &mut Command) -> anyhow::Result<()> {
    text_of(command).map(drop)
}

/// Runs a command that must succeed; returns its trimmed output.
fn text_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{:?}: {}: {}", command.get_program(), output.status, error.trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
