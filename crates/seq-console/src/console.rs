//! The state of a console, which all its requests share.

use std::sync::Arc;
use std::time::Duration;

use seq_channel::Pool;
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::heat::Heat;
use crate::model::Model;

/// The state that all requests share.
pub(crate) struct Console {
    /// Random text of this process. A page of another console, which had the port before, loads itself again.
    pub(crate) id: String,
    pub(crate) model: Model,
    pub(crate) heat: Heat,
    pub(crate) pool: Pool,
    pub(crate) timeout: Duration,
    /// Holder of the certificate of the connections.
    pub(crate) identity: String,
    pub(crate) access: Access,
    /// Permits of streams of updates.
    pub(crate) streams: Arc<Semaphore>,
}
