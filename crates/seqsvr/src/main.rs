//! The one binary: servers, client and operator commands, replay and bench.
//!
//! Each command is a module with `Args` for the command line and `run`. This file parses the command line, builds a
//! runtime and maps the outcome to an exit code. The environment is read in [`environment`] alone.

mod alloc;
mod alloc_state;
mod audit;
mod backup;
mod bench;
mod cert;
mod check;
mod cli;
mod cluster_client;
mod config;
mod dev;
mod diagnose;
mod doctor;
mod ended_migrations;
mod environment;
mod exit;
mod explain;
mod export;
mod health;
mod host;
mod id;
mod import;
mod item_report;
mod man;
mod migration;
mod next_command;
mod node;
mod order_report;
mod output;
mod panic;
mod plan;
mod port_kind;
mod process;
mod proxy;
mod recover;
mod replay;
mod restore;
mod restore_count;
mod section;
mod security;
mod selection;
mod serve;
mod services;
mod set;
mod set_file;
mod settings;
mod signals;
mod sim;
mod status;
mod store;
mod store_client;
mod survey;
mod target;
mod tenant;
mod time_limit;
mod unsafe_command;
mod utc;
mod version;
mod whole_file;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::output::Output;

/// Requests and responses are many small buffers; this allocator takes 12-22 % off a unary call.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::read();
    let output = Output::new(cli.output);
    match run(cli, &output) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error, &output).into(),
    }
}

fn run(cli: Cli, output: &Output) -> anyhow::Result<Exit> {
    security::init(cli.certificate);
    match cli.command {
        Command::Dev(args) => dev::run(&args, output),
        Command::Store(args) => store::run(args, output),
        Command::Alloc(args) => alloc::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Next(args) => client_runtime()?.block_on(next_command::next(args, output)),
        Command::Current(args) => client_runtime()?.block_on(next_command::current(args, output)),
        Command::Import(args) => client_runtime()?.block_on(import::run(args, output)),
        Command::Export(args) => client_runtime()?.block_on(export::run(args, output)),
        Command::Advance(args) => client_runtime()?.block_on(next_command::advance(args, output)),
        Command::Health(args) => client_runtime()?.block_on(health::run(args, output)),
        Command::Status(args) => client_runtime()?.block_on(status::run(args, output)),
        Command::Diagnose(args) => client_runtime()?.block_on(diagnose::run(args, output)),
        Command::Doctor(args) => client_runtime()?.block_on(doctor::run(args, output)),
        Command::Node(command) => node::run(command, output),
        Command::Host(command) => host::run(command, output),
        Command::Cert(command) => cert::run(command, output),
        Command::Tenant(command) => tenant::run(command, output),
        Command::Backup(command) => backup::run(command, output),
        Command::Restore(args) => restore::run(&args, output),
        Command::Audit(command) => audit::run(&command, output),
        Command::Unsafe(command) => unsafe_command::run(&command, output),
        Command::Set(command) => set::run(command, output),
        Command::Migration(command) => migration::run(command, output),
        Command::Section(command) => section::run(command, output),
        Command::Services(args) => client_runtime()?.block_on(services::run(args, output)),
        Command::Replay(args) => client_runtime()?.block_on(replay::run(args, output)),
        Command::Bench(args) => client_runtime()?.block_on(bench::run(args, output)),
        Command::Check(command) => client_runtime()?.block_on(check::run(command, output)),
        Command::Sim(command) => sim::run(command, output),
        Command::Config(command) => config::run(command, output),
        Command::Id(command) => id::run(command, output),
        Command::Explain(args) => explain::run(&args, output),
        Command::Man(args) => man::run(&args, Cli::command(), output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "seqsvr", &mut script);
            output.text(&String::from_utf8(script)?)?;
            Ok(Exit::Ok)
        }
        Command::Version => version::run(output),
    }
}

/// One thread is enough for a client, and costs half the CPU of several for each call.
fn client_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
