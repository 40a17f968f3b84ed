//! Exploration of a model within its bounds, and tools that all models share: counted events, listed variants, traces.
//!
//! A run in which nothing happens proves nothing, so each names the events that it must reach.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model};

/// Transitions after which a run is cut short, and fails, because more would take memory that other tests need.
const MOST_TRANSITIONS: usize = 20_000_000;
/// Transitions after which a run with large bounds is cut short.
const MOST_TRANSITIONS_LARGE: usize = 300_000_000;

/// An enum without fields, with the list of its variants.
macro_rules! listed {
    ($(#[doc = $about:literal])* enum $name:ident; $($(#[doc = $doc:literal])* $variant:ident,)*) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[doc = $doc])* $variant,)* }

        impl $crate::explore::Listed for $name {
            const ALL: &'static [$name] = &[$($name::$variant,)*];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

pub(crate) use listed;

/// A value of a finite list.
pub(crate) trait Listed: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// All values, in order.
    const ALL: &'static [Self];

    /// Returns the place in that list.
    fn index(self) -> usize;
}

/// The count of each event.
#[derive(Debug)]
pub(crate) struct Events<E> {
    counts: Vec<AtomicU64>,
    of: PhantomData<E>,
}

impl<E: Listed> Events<E> {
    /// Returns the counts before any event.
    pub(crate) fn none() -> Events<E> {
        Events { counts: E::ALL.iter().map(|_| AtomicU64::new(0)).collect(), of: PhantomData }
    }

    /// Counts an event.
    pub(crate) fn mark(&self, event: E) {
        self.counts[event.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the count of an event.
    pub(crate) fn count(&self, event: E) -> u64 {
        self.counts[event.index()].load(Ordering::Relaxed)
    }

    /// Returns the events that occurred.
    fn reached(&self) -> Vec<E> {
        E::ALL.iter().copied().filter(|event| self.count(*event) > 0).collect()
    }
}

/// A model that counts its events.
pub(crate) trait Explorable:
    Model<State: Clone + Debug + PartialEq + Hash + Send + Sync, Action: Clone + Debug + PartialEq + Send + Sync>
    + Send
    + Sync
    + Sized
    + 'static
{
    /// The type of the counted events.
    type Event: Listed;

    /// Returns the counts so far.
    fn events(&self) -> &Events<Self::Event>;
}

/// Result of an exploration.
pub(crate) struct Outcome<M: Explorable> {
    pub(crate) states: usize,
    /// The events that occurred.
    pub(crate) reached: Vec<M::Event>,
    pub(crate) seconds: f64,
    /// Whether the exploration was cut short.
    pub(crate) is_cut: bool,
    /// A broken promise, with the steps that lead there.
    pub(crate) broken: Option<(&'static str, Vec<M::Action>)>,
}

/// Explores every world within the bounds, or up to a broken promise. Depth first takes little memory where worlds have
/// few cycles: it keeps the path to each world that is pending.
pub(crate) fn explore<M: Explorable>(model: M) -> Outcome<M> {
    let start = Instant::now();
    outcome(checker(model).spawn_dfs().join(), start)
}

/// Explores breadth first, so that the counterexample is about as short as possible.
pub(crate) fn shortest<M: Explorable>(model: M) -> Outcome<M> {
    let start = Instant::now();
    outcome(checker(model).spawn_bfs().join(), start)
}

fn checker<M: Explorable>(model: M) -> CheckerBuilder<M> {
    model.checker().finish_when(HasDiscoveries::AnyFailures).target_state_count(most_transitions())
}

fn most_transitions() -> usize {
    if is_large() { MOST_TRANSITIONS_LARGE } else { MOST_TRANSITIONS }
}

fn outcome<M: Explorable>(checker: impl Checker<M>, start: Instant) -> Outcome<M> {
    let broken = checker.discoveries().into_iter().map(|(promise, path)| (promise, path.into_actions()));
    Outcome {
        states: checker.unique_state_count(),
        reached: checker.model().events().reached(),
        seconds: start.elapsed().as_secs_f64(),
        is_cut: checker.state_count() >= most_transitions(),
        broken: broken.min_by_key(|(promise, steps)| (steps.len(), *promise)),
    }
}

/// Checks that the correct protocol holds in a run, and that the run reaches the events that it is made for; returns
/// the reason if not.
pub(crate) fn holds<M: Explorable>(
    name: &str,
    outcome: Outcome<M>,
    must_reach: &[M::Event],
    again: impl FnOnce() -> Outcome<M>,
) -> Result<(), String> {
    println!("{name}: {} states, {:.1} s: {:?}", outcome.states, outcome.seconds, outcome.reached);
    if outcome.broken.is_some() {
        let (promise, steps) = again().broken.expect("it was broken before");
        return Err(format!("{name}: broken: {promise}\n{}", trace(&steps)));
    }
    if outcome.is_cut {
        return Err(format!("{name} was cut short at {} states", outcome.states));
    }
    let missed: Vec<_> = must_reach.iter().filter(|event| !outcome.reached.contains(event)).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!("{name} never reached {missed:?}, so it proves nothing; it reached {:?}", outcome.reached))
}

/// Fails with the errors of all runs, after each run was explored.
pub(crate) fn all_hold(results: impl Iterator<Item = Result<(), String>>) {
    let errors: Vec<String> = results.filter_map(Result::err).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Returns the trace, with one step on each line.
pub(crate) fn trace(steps: &[impl Debug]) -> String {
    steps.iter().zip(1..).map(|(step, number)| format!("  {number:2} {step:?}\n")).collect()
}

/// Returns whether the large bounds are requested.
pub(crate) fn is_large() -> bool {
    requested("MODEL_DEPTH").is_some_and(|depth| depth == "large")
}

/// Returns whether the steps to each broken promise are requested.
pub(crate) fn is_traced() -> bool {
    requested("MODEL_TRACE").is_some()
}

#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
fn requested(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
