//! The command `cert`, which makes, shows, renews and revokes certificates of a cluster.
//!
//! The files of a certificate authority are in one directory. The file `ca.crt` contains the certificates of the
//! trusted authorities. `ca.key` contains the same certificates and the authority's private key, and `crl.pem` the list
//! of revocations. Every other `.pem` file contains the private key of a holder, followed by the holder's certificate.
//! Both are in one file, so that a process never reads a key and a certificate that do not belong together.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, note};
use seq_command::{security, utc};

mod cert_dir;
mod issue;
mod show;

use cert_dir::CertDir;
use issue::IssueArgs;
use show::ShowArgs;

/// Number of seconds in a day.
const DAY: u64 = 24 * 3600;

/// The commands for certificates.
#[derive(Debug, Subcommand)]
pub enum CertCommand {
    /// Makes the certificate authority of a cluster.
    Ca(CaArgs),
    /// Makes certificates for all nodes of set files, or for named holders.
    Issue(IssueArgs),
    /// Shows certificates with holder, hosts, expiry and revocation.
    Show(ShowArgs),
    /// Renews certificates with new keys, or the authority itself.
    Rotate(RotateArgs),
    /// Revokes certificates that have not expired.
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr cert ca --cluster im\n\n\
                        Keep ca.key off the machines of the cluster; each machine needs only ca.crt and its certificates.\n\n\
                        Exit codes: 0 made, 1 the files cannot be written, 2 the directory already has an authority.")]
pub struct CaArgs {
    /// Name of the cluster: the key `cluster` of its set files, or the name of the set if the files have no such key.
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Validity of the authority.
    #[arg(long, value_name = "DAYS", default_value_t = 3_650, value_parser = clap::value_parser!(u32).range(1..=18_250))]
    days: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr cert rotate                 renew all\n  \
                        seqsvr cert rotate --within 30     renew certificates that expire within 30 days\n  \
                        seqsvr cert rotate --ca            put a new authority before the present authority\n\n\
                        Processes reload their files when the files change, so copy the new files over the old files.\n\
                        After --ca, copy ca.crt to every machine first, then rotate the certificates.\n\n\
                        Exit codes: 0 renewed, or nothing was due, 1 a file cannot be written, 2 no authority, or a damaged \
                        file.")]
pub struct RotateArgs {
    /// Renews only certificates that expire within this number of days.
    #[arg(long, value_name = "DAYS", conflicts_with = "ca")]
    within: Option<u32>,
    /// Makes a new authority; certificates of the present authority stay valid.
    #[arg(long)]
    ca: bool,
    /// Validity of the new certificates or authority; by default 90 for certificates, 3,650 for an authority.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=18_250))]
    days: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr cert revoke operator/alice\n\n\
                        The command adds to crl.pem; copy the file to every machine. Processes reload it when it changes, and end \
                        open connections of the holder within 2 s.\n\n\
                        Exit codes: 0 revoked, 1 a file cannot be written, 2 no authority, or no such certificate.")]
pub struct RevokeArgs {
    /// Holders as in `cert show`, such as operator/alice, or serials.
    #[arg(value_name = "HOLDER|SERIAL", required = true)]
    certificates: Vec<String>,
}

pub fn run(command: CertCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        CertCommand::Ca(args) => ca(&args, output),
        CertCommand::Issue(args) => issue::run(&args, output),
        CertCommand::Show(args) => show::run(&args, output),
        CertCommand::Rotate(args) => rotate(&args, output),
        CertCommand::Revoke(args) => revoke(&args, output),
    }
}

fn days(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * DAY)
}

fn ca(args: &CaArgs, output: &Output) -> anyhow::Result<Exit> {
    let dir = CertDir::create(security::dir(), &args.cluster, days(args.days))?;
    print(output, &[(dir.bundle_path(), dir.authority()?.not_after())])
}

fn rotate(args: &RotateArgs, output: &Output) -> anyhow::Result<Exit> {
    let dir = CertDir::open(security::dir())?;
    if args.ca {
        let next = dir.succeed(days(args.days.unwrap_or(3_650)))?;
        note("copy ca.crt to every machine, then run `seqsvr cert rotate`");
        return print(output, &[(dir.bundle_path(), next.not_after())]);
    }
    let now = utc::now();
    let authority = dir.authority()?;
    let mut renewed = Vec::new();
    for (path, certificate) in dir.certificates()? {
        if args.within.is_none_or(|within| certificate.left(now) <= days(within)) {
            let (identity, hosts) = (certificate.identity, certificate.hosts);
            let request = seq_auth::authority::Request { identity, hosts, validity: days(args.days.unwrap_or(90)) };
            let not_after = dir.issue(&authority, &request, &path)?;
            renewed.push((path, not_after));
        }
    }
    if renewed.is_empty() {
        note("no certificate is due");
    }
    print(output, &renewed)
}

fn revoke(args: &RevokeArgs, output: &Output) -> anyhow::Result<Exit> {
    let dir = CertDir::open(security::dir())?;
    let all = dir.certificates()?;
    let is_serial = |text: &str| text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut serials = Vec::new();
    for wanted in &args.certificates {
        let held = all.iter().find(|(_, held)| held.identity.short() == *wanted || held.serial == *wanted);
        serials.push(match held {
            Some((_, certificate)) => certificate.serial.clone(),
            None if is_serial(wanted) => wanted.to_ascii_lowercase(),
            None => {
                let what = format!(
                    "{wanted:?} is neither the holder nor the serial of a certificate in {}",
                    security::dir().display()
                );
                return Err(Failure::new(Exit::Usage, what).hint("`seqsvr cert show` lists them").into());
            }
        });
    }
    let path = dir.revoke(&serials)?;
    if output.is_json() {
        output.json(&serde_json::json!({ "file": path.display().to_string(), "revoked": serials }))?;
    } else {
        output.line(format_args!("{}: revoked {}", path.display(), serials.join(", ")))?;
    }
    Ok(Exit::Ok)
}

/// Prints the paths of the files that the command wrote, each with the time when its certificate expires.
fn print(output: &Output, written: &[(PathBuf, std::time::SystemTime)]) -> anyhow::Result<Exit> {
    #[derive(serde::Serialize)]
    struct Written {
        file: String,
        not_after: String,
    }
    let items: Vec<Written> = written
        .iter()
        .map(|(file, not_after)| Written { file: file.display().to_string(), not_after: utc::text(*not_after) })
        .collect();
    if output.is_json() {
        output.json_items(&items)?;
    } else {
        let mut table = Table::new(&[]);
        items.into_iter().for_each(|Written { file, not_after }| table.row([file, format!("valid until {not_after}")]));
        output.table(&table)?;
    }
    Ok(Exit::Ok)
}
