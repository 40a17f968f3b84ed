# Shorthands. `just` is a convenience: each recipe is one command that works without it.

# Lists the recipes.
default:
    @just --list

# Everything that must hold before a change lands. Writes nothing but target/.
check *ARGS:
    cargo xtask check {{ARGS}}

# Formats, and applies what clippy can fix by itself.
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# Starts the development cluster.
dev *ARGS:
    cargo run --release -- dev {{ARGS}}

# Runs the tests.
test *ARGS:
    cargo test --workspace {{ARGS}}

# Enumerates the interleavings of the section's atomics.
loom:
    cargo xtask check --only loom

# Runs the real services on a simulated network; CONTRIBUTING.md says how a seed is repeated.
turmoil *ARGS:
    cd tests/turmoil && cargo test {{ARGS}} -- --nocapture

# Runs the core in simulated worlds; CONTRIBUTING.md says how a seed is repeated.
sim SEEDS="10000":
    cargo run --release -- sim run --seeds {{SEEDS}}
    cargo run --release -- sim run --sets 3 --seeds {{SEEDS}}

# Breaks real processes in every way there is, under load, and checks the order of every number. Needs root.
chaos ROWS="all":
    CHAOS={{ROWS}} cargo test --workspace --test chaos

# Two or three faults at a time on real processes, drawn from so many seeds: some 8 s for each. Needs root.
chaos-pairs SEEDS="200" FIRST="1":
    CHAOS=pairs CHAOS_SEED={{FIRST}} CHAOS_TRIALS={{SEEDS}} cargo test --workspace --test chaos

# Pauses allocators 500 times around the edge of their leases: about 25 minutes. Needs root.
chaos-pauses:
    CHAOS=alloc_pauses cargo test --release --workspace --test chaos

# Measures how long the sections of a lost host are without an answer. Needs root.
chaos-failover TRIALS="50":
    CHAOS=failover CHAOS_TRIALS={{TRIALS}} cargo test --release --workspace --test chaos

# Measures how long the sections of a killed allocator are without a response when its parent reports it. Needs root.
chaos-crashes TRIALS="100":
    CHAOS=crash_300 CHAOS_TRIALS={{TRIALS}} cargo test --release --workspace --test chaos

# Runs all rows of the conformance suite with each SDK that this machine can run, or with the named ones: some minutes for each.
conformance *SDKS="present":
    CONFORMANCE=${CONFORMANCE:-all} CONFORMANCE_SDK="{{SDKS}}" cargo test --workspace --test conformance

# Builds the packages of the clients in target/packages, and takes a number with each from outside of the repository.
package *SDKS:
    clients/package {{SDKS}}

# Builds the documents as a book, target/book/html, and checks its links. Needs mdbook and lychee.
book:
    cargo xtask book

# Checks dependencies against the database of advisories, which it fetches.
advisories:
    cargo deny --locked check advisories

# Writes a list of all crates of the program, target/seqsvr.cdx.json; docs/supply-chain.md has the tool.
sbom *ARGS:
    cargo xtask sbom {{ARGS}}

# Checks and tests the Python client against the `seqsvr` that `cargo build` has made.
python:
    clients/python/check

# Checks and tests the TypeScript client against the `seqsvr` that `cargo build` has made.
typescript *ARGS:
    clients/typescript/check {{ARGS}}

# Checks and tests the Go client against the `seqsvr` that `cargo build` has made.
go:
    clients/go/check

# Checks and tests the Java client against the `seqsvr` that `cargo build` has made.
java *ARGS:
    clients/java/check {{ARGS}}

# Packages the Java client with Maven, without a network.
java-package:
    clients/java/package

# Feeds each fuzz target for some seconds: ten minutes for all of them.
fuzz SECONDS="66" *ARGS:
    cargo xtask fuzz --seconds {{SECONDS}} {{ARGS}}

# Runs the benchmarks.
bench *ARGS:
    cargo bench --workspace {{ARGS}}

# Measures how the service scales over uids, sections, allocators and steps, and changes of owner over sections, and draws it:
# some minutes.
growth DIR="docs/growth":
    cargo run --profile dist -p seq-growth -- {{DIR}}

# Measures seqsvr beside Redis, PostgreSQL, MariaDB, etcd and the bare wire, in one run: about 10 minutes. They must be
# installed: redis-server redis-tools postgresql mariadb-server etcd-server etcd-client.
# `--only tls` measures what TLS costs. `--baseline FILE` measures another build of seqsvr in turn with this one.
compare *ARGS:
    cargo build --profile dist -p seqsvr -p seq-compare -p seq-store --bins --example propose
    target/dist/seq-compare run {{ARGS}}

# Faults, and the seconds until each alert fires and resolves; as root, with Prometheus and Alertmanager: about an hour.
alerts:
    SEQSVR_BEFORE=$(tests/rolling/before) cargo test -p seqsvr --test e2e -- --ignored --nocapture --test-threads 4 fire_and_resolve

# Stages conditions of real processes, and writes what `status` says of each, its exit code and the seconds: as root, with
# libfaketime, in less than six minutes.
status-table FILE="target/status.md":
    STATUS_TABLE={{FILE}} cargo test -p seqsvr --test e2e -- --ignored --nocapture words_and_seconds

# Starts a development cluster under load with a Prometheus, and Grafana if it is installed, to look at the dashboard with
# data; names the panels without data. `--check` ends after that.
dashboard *ARGS:
    cargo build --release -p seqsvr
    tests/dashboard/run {{ARGS}}

# Draws each panel of the dashboard from a set under load and faults, into docs/dashboard.svg: four minutes, with Prometheus.
dashboard-picture:
    cargo test -p seqsvr --test e2e -- --ignored --nocapture every_panel

# Needs cargo-deb and cargo-cyclonedx.
dist *ARGS:
    cargo xtask dist {{ARGS}}

# The package on a bare Debian system, under systemd; as root.
install *ARGS:
    tests/install/run {{ARGS}}

# The image as the manifests of Kubernetes start it; as root, after `just dist`.
pods:
    cargo test -p seqsvr --test deploy -- --ignored --nocapture

# Ten upgrades and downgrades between the release before and this one, under load: some minutes.
rolling:
    tests/rolling/run

# Imports a million counters of a real redis-server, killed ten times on the way: some minutes.
import COUNTERS="1000000":
    IMPORT_COUNTERS={{COUNTERS}} cargo test --release -p seqsvr --test e2e -- --nocapture counters_of_a_redis

# Restores and recovers sets under load, one from a backup that lacks so many ceiling raises: some minutes.
drills RAISES="100000":
    DRILL_RAISES={{RAISES}} cargo test -p seqsvr --test e2e -- --nocapture --test-threads 1 drills:: recover::

# Migrates a thousand sections between two sets under 20,000 numbers a second over every endpoint, then has one set lost, and
# measures both: some minutes.
sets:
    cargo test --release -p seqsvr --test e2e -- --ignored --nocapture --test-threads 1 sets_at_scale

# Measures what a tenant notices of another one that sends ten times its quota: some minutes.
tenants:
    cargo test --release -p seqsvr --test e2e -- --ignored --nocapture --test-threads 1 a_flood_of_ten_times

# Measures what one AllocSvr serves of three times the calls that it can serve: some minutes, on an idle machine of two CPUs.
overload:
    cargo test --release -p seqsvr --test e2e -- --ignored --nocapture --test-threads 1 goodput_under

# Measures what a hundred hostile connections of each kind take from a node, and from a light caller beside them.
hostile:
    cargo test --release -p seqsvr --test e2e -- --ignored --nocapture --test-threads 1 a_hundred_hostile
