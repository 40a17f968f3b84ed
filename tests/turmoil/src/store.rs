//! A member of the store as a host: the real member, with its disk in memory. The disk outlives crashes.

use std::sync::Arc;
use std::time::Duration;

use seq_api::clock::Clock;
use seq_core::set_spec::SetSpec;
use seq_kit::tasks::TaskGroup;
use seq_store::{DataDir, Dial, MemoryDisk, Sockets, Store, StoreConfig, StoreOptions};

use crate::net;
use crate::report::Report;

/// Interval at which a member checks whether it leads: short enough that no effective leadership is missed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Options of a member, for each of its starts.
#[derive(Clone, Debug)]
pub struct Member {
    /// The set.
    pub spec: SetSpec,
    /// Raft id of the member among the set's stores.
    pub id: u64,
    /// Its disk.
    pub disk: Arc<MemoryDisk>,
    /// Timeouts and limits.
    pub options: StoreOptions,
    /// The clocks of its machine.
    pub clock: Clock,
    /// Report that notes when it leads.
    pub report: Report,
}

/// Runs a member until it crashes.
///
/// # Errors
/// If the member cannot start, or ends by itself; neither may happen.
pub async fn run(member: Member) -> turmoil::Result {
    let Member { spec, id, disk, options, clock, report } = member;
    let name = spec.stores.iter().find(|store| store.id == id).expect("the set has the store").name.clone();
    let config = StoreConfig {
        cluster: spec.name.clone(),
        spec,
        id,
        data: DataDir::Memory(disk),
        join: false,
        form: false,
        sockets: Sockets {
            peers: net::listen().await?,
            // A host of the simulated network has only one listener.
            raft: None,
            admin: None,
        },
        options,
        clock,
        revision: "simulated".to_owned(),
        cpu_us: || 0,
        settings: Default::default(),
        events: Default::default(),
    };
    let tasks = TaskGroup::new();
    let handle = Store::start_with(config, Dial::new(net::dial), tasks.clone()).await?;
    let mut led = false;
    while !tasks.token().is_cancelled() {
        let leads = handle.is_leader();
        if leads && !led {
            report.leads(&name);
        }
        led = leads;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(format!("{name} ended by itself: {:?}", tasks.failed()).into())
}
