//! Connects to the store of any set of a cluster, starting from any node of the cluster.
//!
//! The command line names one node of the cluster to start from, and may name a set to which this node does not belong.
//! Every store knows all sets of its cluster and the addresses of their StoreSvrs, and every StoreSvr reports its admin
//! port. So the command finds the named set's store through the store of the node's set.

use std::time::Duration;

use seq_command::exit::{Exit, Failure, report_error};
use seq_command::store_client::{SetAddress, StoreClient};
use seq_proto::reason::Reason;
use seq_proto::v1::{MigrationStatus, SetInfo, SetState};

/// Timeout of requests to the store of a closed set. It is short because an operator has probably stopped the store's
/// processes.
const CLOSED_TIMEOUT: Duration = Duration::from_millis(500);

/// A cluster as one of its stores knows it.
pub(crate) struct Cluster {
    /// Client of the store that the command line names.
    seed: StoreClient,
    /// The set of `seed`, followed by the other sets.
    sets: Vec<SetInfo>,
    timeout: Duration,
}

/// A set, and a client of the set's store.
pub(crate) struct SetClient {
    pub(crate) store: StoreClient,
    /// The set itself, followed by all other sets that the set's store knows.
    pub(crate) sets: Vec<SetInfo>,
}

impl SetClient {
    /// Returns the record of the set itself.
    pub(crate) fn info(&self) -> &SetInfo {
        &self.sets[0]
    }

    /// Returns the set with the given name or decimal id, as this set's store knows it.
    pub(crate) fn find(&self, name: &str) -> Result<&SetInfo, Failure> {
        find(&self.sets, name)
    }
}

impl Cluster {
    /// Connects to the store that the command line names, and requests the list of the sets that the store knows.
    pub(crate) async fn connect(target: &SetAddress, timeout: Duration) -> anyhow::Result<Cluster> {
        let mut seed = target.client(timeout)?;
        let Some(sets) = seed.sets().await? else { return Err(undefined().into()) };
        Ok(Cluster { seed, sets, timeout })
    }

    /// Returns the sets of the cluster. The first is the set whose store the command line names.
    pub(crate) fn sets(&self) -> &[SetInfo] {
        &self.sets
    }

    /// Returns the set with the given name or decimal id, as the store that the command line names knows it.
    pub(crate) fn find(&self, name: &str) -> Result<&SetInfo, Failure> {
        find(&self.sets, name)
    }

    /// Returns the set of the store that the command line names.
    pub(crate) fn into_own(self) -> SetClient {
        SetClient { store: self.seed, sets: self.sets }
    }

    /// Connects to the store of the set with the given name or decimal id.
    pub(crate) async fn into_set(self, name: &str) -> anyhow::Result<SetClient> {
        let set = find(&self.sets, name)?;
        if set.id == self.sets[0].id { Ok(self.into_own()) } else { self.open(set, self.timeout).await }
    }

    /// Finds the layout writer, the only set that creates series for the cluster. Requests the dry run of a change of a
    /// series from the open sets, one after another. The layout writer accepts the dry run, and every other set refuses
    /// it with LAYOUT_WRITER. Returns a client of the layout writer's store, and its response to the dry run.
    pub(crate) async fn into_series_writer<T>(
        mut self,
        dry_run: impl AsyncFn(&mut StoreClient) -> anyhow::Result<T>,
    ) -> anyhow::Result<(SetClient, T)> {
        let refusal = match dry_run(&mut self.seed).await {
            Ok(foreseen) => return Ok((self.into_own(), foreseen)),
            Err(error) => of_other_set(error)?,
        };
        for set in self.sets[1..].iter().filter(|set| set.state() != SetState::Closed) {
            let mut client = match self.open(set, self.timeout).await {
                Ok(client) => client,
                Err(error) => {
                    report_error(&format_args!("set {}: {error:#}", set.name));
                    continue;
                }
            };
            match dry_run(&mut client.store).await {
                Ok(foreseen) => return Ok((client, foreseen)),
                Err(error) => of_other_set(error)?,
            };
        }
        Err(refusal)
    }

    /// Connects to the store of the set `set`, which is not the set of `seed`.
    async fn open(&self, set: &SetInfo, timeout: Duration) -> anyhow::Result<SetClient> {
        if set.stores.is_empty() {
            let message = format!("no address of a store of set {} is known to set {}", set.name, self.sets[0].name);
            return Err(Failure::new(Exit::CannotConnect, message).hint("name one of its nodes with --addr").into());
        }
        let mut store = StoreClient::at("", &set.stores, timeout);
        let Some(sets) = store.sets().await? else { return Err(undefined().into()) };
        if sets[0].id != set.id {
            let found = &sets[0].name;
            let message = format!(
                "the admin port that {} states belongs to set {found}, not to set {}",
                set.stores.join(", "),
                set.name
            );
            let hint = format!(
                "the port is on loopback of another machine: run the command where a store of set {} runs",
                set.name
            );
            return Err(Failure::new(Exit::Failed, message).hint(hint).into());
        }
        Ok(SetClient { store, sets })
    }

    /// Requests a list of migrations from every set of the cluster. Each set lists the migrations that began in it. If
    /// an open set does not respond, prints an error on stderr and counts the set.
    pub(crate) async fn migrations(&mut self) -> anyhow::Result<Found> {
        let mut found = Found { migrations: self.seed.migrations(None).await?, silent: 0 };
        for set in &self.sets[1..] {
            let is_closed = set.state() == SetState::Closed;
            let timeout = if is_closed { CLOSED_TIMEOUT } else { self.timeout };
            let listed = match self.open(set, timeout).await {
                Ok(mut client) => client.store.migrations(None).await,
                Err(error) => Err(error),
            };
            match listed {
                Ok(more) => found.migrations.extend(more),
                // The failure is ignored, because the processes of a closed set need not run.
                Err(_) if is_closed => {}
                Err(error) => {
                    report_error(&format_args!("set {}: {error:#}", set.name));
                    found.silent += 1;
                }
            }
        }
        Ok(found)
    }

    /// Finds the only migration whose id is `digits` or begins with `digits`. Returns the migration, and a client of
    /// the set in which it began.
    pub(crate) async fn into_migration(mut self, digits: &str) -> anyhow::Result<(SetClient, MigrationStatus)> {
        let found = self.migrations().await?;
        let mut named: Vec<MigrationStatus> =
            found.migrations.into_iter().filter(|migration| migration.id.to_string().starts_with(digits)).collect();
        named.sort_by_key(|migration| migration.id.to_string() != digits);
        let is_exact = named.first().is_some_and(|migration| migration.id.to_string() == digits);
        let migration = match named.len() {
            1.. if is_exact => named.swap_remove(0),
            1 => named.swap_remove(0),
            0 if found.silent > 0 => {
                let message = format!("no migration {digits} in the sets that respond; {} do not", found.silent);
                return Err(Failure::new(Exit::Unhealthy, message).into());
            }
            0 => {
                let message =
                    format!("no migration {digits} in the sets of this cluster ({})", Reason::UnknownMigration);
                let failure = Failure::new(Exit::Failed, message).reason(Reason::UnknownMigration.name());
                return Err(failure.hint("`seqsvr migration list` lists them").into());
            }
            count => {
                let ids = named.iter().map(|migration| migration.id.to_string()).collect::<Vec<_>>().join(", ");
                let message = format!("the ids of {count} migrations begin with {digits}: {ids}");
                return Err(Failure::new(Exit::Usage, message).into());
            }
        };
        Ok((self.into_set(&migration.from.clone()).await?, migration))
    }
}

/// The migrations of a cluster; see [`Cluster::migrations`].
pub(crate) struct Found {
    pub(crate) migrations: Vec<MigrationStatus>,
    /// Number of sets that did not respond.
    pub(crate) silent: usize,
}

fn find<'a>(sets: &'a [SetInfo], name: &str) -> Result<&'a SetInfo, Failure> {
    let named = |set: &&SetInfo| set.name == name || set.id.to_string() == name;
    sets.iter().find(named).ok_or_else(|| {
        let known = sets.iter().map(|set| set.name.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("no set {name:?} is known to set {} ({})", sets[0].name, Reason::UnknownSet);
        Failure::new(Exit::Failed, message).reason(Reason::UnknownSet.name()).hint(format!("it knows {known}"))
    })
}

/// Returns `error` as a value if it is the refusal of a set because the set is not the layout writer.
///
/// # Errors
/// `error` itself, if it has any other cause.
fn of_other_set(error: anyhow::Error) -> anyhow::Result<anyhow::Error> {
    let is_refusal = error.downcast_ref::<Failure>().is_some_and(|failure| failure.is(Reason::LayoutWriter));
    if is_refusal { Ok(error) } else { Err(error) }
}

/// Returns the failure for a store that has no set yet.
pub(crate) fn undefined() -> Failure {
    Failure::new(Exit::Unhealthy, format!("the store has no set yet ({})", Reason::NoSet))
        .reason(Reason::NoSet.name())
        .hint("`seqsvr set init --set FILE` or `seqsvr set create --set FILE` defines it")
}
