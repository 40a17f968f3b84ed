//! The observations that all pages share. A task observes the cluster again and again while a page is
//! open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seq_command::utc::time_of_day;
use seq_observe::activity::By;
use seq_observe::{Observation, Observer};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// Interval of the observations while a page is open.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// Interval without an open page, so that the next page has values of the last minutes.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// Time without an open page after which no observation is made, because a forgotten console must not load the nodes.
const SLEEP_AFTER: Duration = Duration::from_secs(600);

/// Age of an observation up to which a page is made of it. For a page after a longer pause a new observation is
/// made first.
const FRESH: Duration = Duration::from_secs(12);

/// Time for which a page waits for a new observation if there is an old one.
const MOST_WAIT: Duration = Duration::from_secs(1);

/// Least time between two observations: many events may follow each other, and each observation is a request to every
/// node.
const LEAST_INTERVAL: Duration = Duration::from_millis(500);

/// Busiest sections of an observation, which the page of sections shows.
pub(crate) const SECTIONS: u32 = 200;

/// Time between two values of a sparkline, and their number: together 15 minutes.
const RATE_PERIOD: Duration = Duration::from_secs(10);
const RATES: usize = 90;

/// The last observation, with its history.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// The last observation that succeeded, and its time.
    pub(crate) last: Option<(Instant, Arc<Observation>)>,
    /// Reason why the observation after it failed.
    pub(crate) error: Option<String>,
    /// Time of the last observation, whether it succeeded or failed.
    tried: Option<Instant>,
    /// Numbers in a second of each set in the last 15 minutes, the newest last.
    ///
    /// **Invariant:** no entry is longer than [`RATES`].
    pub(crate) rates: Arc<BTreeMap<String, VecDeque<f64>>>,
}

/// Age of the values of a page.
pub(crate) struct Age {
    /// Milliseconds since the values were measured; `None` without values.
    pub(crate) ms: Option<u64>,
    /// Time of day of the measurement.
    pub(crate) as_of: String,
}

impl Age {
    /// Returns the age of the last observation.
    pub(crate) fn of(seen: &Seen) -> Age {
        let last = seen.last.as_ref();
        let age = last.map(|(at, _)| Instant::now().saturating_duration_since(*at));
        Age {
            ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            as_of: last.map(|(_, observation)| time_of_day(observation.unix_ms)).unwrap_or_default(),
        }
    }
}

/// The observations of a cluster, for any number of readers.
#[derive(Clone)]
pub(crate) struct Model {
    seen: watch::Receiver<Seen>,
    demand: Arc<Demand>,
}

/// Demand for observations.
#[derive(Default)]
struct Demand {
    /// Number of open pages, and the time of the last request or of the end of the last page.
    open: Mutex<(usize, Option<Instant>)>,
    opened: Notify,
}

/// An open page. Dropping it ends its demand.
pub(crate) struct OpenPage(Arc<Demand>);

impl Drop for OpenPage {
    fn drop(&mut self) {
        let mut open = self.0.open.lock();
        *open = (open.0 - 1, Some(Instant::now()));
    }
}

impl Demand {
    /// Returns the interval of observations at a time; `None` while nobody has looked for long or at all.
    fn interval(&self, now: Instant) -> Option<Duration> {
        let (pages, last) = *self.open.lock();
        match pages {
            0 if last.is_none_or(|last| now.saturating_duration_since(last) >= SLEEP_AFTER) => None,
            0 => Some(IDLE_INTERVAL),
            _ => Some(INTERVAL),
        }
    }
}

impl Model {
    /// Returns a model, and the task that observes.
    pub(crate) fn new(observer: Observer) -> (Model, impl Future<Output = ()> + Send) {
        let (send, seen) = watch::channel(Seen::default());
        let demand = Arc::<Demand>::default();
        (Model { seen, demand: Arc::clone(&demand) }, observe(observer, demand, send))
    }

    /// Returns the last observation, or the next observation if the last is old. A request for it counts as a look at a
    /// page.
    ///
    /// # Cancel safety
    /// A cancelled request has no effect.
    pub(crate) async fn seen(&self) -> Seen {
        self.demand.open.lock().1 = Some(Instant::now());
        self.demand.opened.notify_one();
        let mut seen = self.seen.clone();
        let is_known = seen.borrow().last.is_some();
        let fresh = seen.wait_for(|seen| seen.tried.is_some_and(|tried| tried.elapsed() < FRESH));
        // An old observation, which states its age, is better than a page that waits for a node that hangs.
        let limit = if is_known { MOST_WAIT } else { Duration::MAX };
        drop(tokio::time::timeout(limit, fresh).await);
        self.seen.borrow().clone()
    }

    /// Returns a receiver of observations for a page that is open until the second value is dropped.
    pub(crate) fn open(&self) -> (watch::Receiver<Seen>, OpenPage) {
        self.demand.open.lock().0 += 1;
        self.demand.opened.notify_one();
        (self.seen.clone(), OpenPage(Arc::clone(&self.demand)))
    }
}

/// Observes the cluster permanently, in the interval that the open pages need.
async fn observe(mut observer: Observer, demand: Arc<Demand>, send: watch::Sender<Seen>) {
    let mut rates: BTreeMap<String, VecDeque<f64>> = BTreeMap::new();
    let (mut rated, mut last) = (None, None);
    loop {
        pause(&mut observer, &demand, last).await;
        let observed = observer.observe(By::Numbers, SECTIONS).await;
        let now = Instant::now();
        let mut seen = send.borrow().clone();
        match observed {
            Ok(observation) => {
                if rated.is_some_and(|rated| now.duration_since(rated) > 3 * RATE_PERIOD) {
                    rates.clear();
                }
                if rated.is_none_or(|rated| now.duration_since(rated) >= RATE_PERIOD) {
                    rated = Some(now);
                    add_rates(&mut rates, &observation);
                    seen.rates = Arc::new(rates.clone());
                }
                (seen.last, seen.error) = (Some((now, observation)), None);
            }
            Err(failure) => seen.error = Some(failure.to_string()),
        }
        seen.tried = Some(now);
        send.send_replace(seen);
        last = Some(now);
    }
}

/// Waits until the next observation is due: after the interval, an event, or a page that was opened.
async fn pause(observer: &mut Observer, demand: &Demand, last: Option<Instant>) {
    loop {
        let interval = demand.interval(Instant::now());
        if interval.is_none() {
            observer.rest();
        }
        let due = async {
            match (interval, last) {
                (Some(interval), Some(last)) => sleep_until(last + interval).await,
                (Some(_), None) => {}
                (None, _) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => return,
            () = observer.next_event(), if interval == Some(INTERVAL) => {
                // An observer has events only after its first observation.
                if let Some(last) = last {
                    sleep_until(last + LEAST_INTERVAL).await;
                }
                return;
            }
            // The interval may be shorter now.
            () = demand.opened.notified() => {}
        }
    }
}

fn add_rates(rates: &mut BTreeMap<String, VecDeque<f64>>, observation: &Observation) {
    let sets = &observation.cluster.sets;
    rates.retain(|name, _| sets.iter().any(|set| set.name == *name));
    for set in sets {
        let Some(rate) = set.numbers_per_second else { continue };
        let of_set = rates.entry(set.name.clone()).or_default();
        if of_set.len() == RATES {
            of_set.pop_front();
        }
        of_set.push_back(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn observations_follow_the_open_pages() {
        let demand = Arc::<Demand>::default();
        assert_eq!(demand.interval(Instant::now()), None, "nobody has looked yet");
        demand.open.lock().1 = Some(Instant::now());
        assert_eq!(demand.interval(Instant::now()), Some(IDLE_INTERVAL));
        tokio::time::advance(SLEEP_AFTER).await;
        assert_eq!(demand.interval(Instant::now()), None, "a forgotten console asks nobody");
        demand.open.lock().0 += 1;
        let page = OpenPage(Arc::clone(&demand));
        assert_eq!(demand.interval(Instant::now()), Some(INTERVAL));
        drop(page);
        assert_eq!(demand.interval(Instant::now()), Some(IDLE_INTERVAL), "since the page was closed");
    }
}
