//! The command `cert show`.

use std::path::{Path, PathBuf};

use clap::Args;
use seq_auth::certificate::Certificate;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table};
use seq_command::{security, utc};
use serde::Serialize;

use super::DAY;
use super::cert_dir::{REVOCATIONS, authority_not_after, certificate, pem_files, revocations};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr cert show\n  seqsvr cert show /etc/seqsvr/node.pem -o json | jq '.items[].days_left'\n\n\
                        Exit codes: 0 shown, 2 a file is not a certificate of a cluster, 3 a certificate has expired or is revoked."
)]
pub struct ShowArgs {
    /// Files with certificates; without any, the files of --certs.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// A certificate, as `cert show` prints it.
#[derive(Serialize)]
struct View {
    file: String,
    cluster: String,
    holder: String,
    hosts: Vec<String>,
    serial: String,
    not_before: String,
    not_after: String,
    days_left: u64,
    /// `valid`, `expired`, `early` (not valid yet) or `revoked`.
    state: &'static str,
    sha256: String,
}

/// Certificates that `cert show` prints, and the time when the newest authority in the same directory expires.
#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    authority_not_after: Option<String>,
    items: Vec<View>,
}

pub(super) fn run(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let dir = security::dir();
    let mut files = args.files.clone();
    if files.is_empty() {
        files = pem_files(dir)?;
        files.retain(|file| file.file_name().is_none_or(|name| name != REVOCATIONS));
    }
    if files.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("{} holds no certificate", dir.display())).into());
    }
    let revoked = revocations(dir)?;
    let views =
        files.iter().map(|file| Ok(view(file, certificate(file)?, &revoked))).collect::<anyhow::Result<Vec<_>>>()?;
    let exit = if views.iter().all(|view| view.state == "valid") { Exit::Ok } else { Exit::Unhealthy };
    let authority = authority_not_after(dir)?;
    if output.is_json() {
        let authority_not_after = authority.map(utc::text);
        output.json(&Shown { authority_not_after, items: views })?;
        return Ok(exit);
    }
    let mut heading = vec!["holder", "state", "days left", "hosts", "file"];
    if output.is_wide() {
        heading.extend(["serial", "sha-256"]);
    }
    let mut table = Table::new(&heading).right(&[2]);
    for view in views {
        let hosts = if view.hosts.is_empty() { "-".to_owned() } else { view.hosts.join(",") };
        let wide = [view.serial, view.sha256].into_iter().filter(|_| output.is_wide());
        let cells = [view.holder, view.state.to_owned(), view.days_left.to_string(), hosts, view.file];
        table.row(cells.into_iter().chain(wide));
    }
    output.table(&table)?;
    if let Some(at) = authority {
        output.line(format_args!("\nauthority valid until {}", utc::text(at)))?;
    }
    Ok(exit)
}

fn view(file: &Path, certificate: Certificate, revoked: &[String]) -> View {
    let now = utc::now();
    let state = match () {
        () if revoked.contains(&certificate.serial) => "revoked",
        () if now > certificate.not_after => "expired",
        () if now < certificate.not_before => "early",
        () => "valid",
    };
    View {
        file: file.display().to_string(),
        cluster: certificate.identity.cluster().to_owned(),
        holder: certificate.identity.short(),
        days_left: certificate.left(now).as_secs() / DAY,
        hosts: certificate.hosts,
        serial: certificate.serial,
        not_before: utc::text(certificate.not_before),
        not_after: utc::text(certificate.not_after),
        state,
        sha256: certificate.sha256,
    }
}
