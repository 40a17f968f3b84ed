//! Promises with many threads: every number once, and in the order of real time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use seq_api::service::SequenceService;

use crate::world::{SIZE, World, ask, call};

const THREADS: usize = 4;
const UIDS: usize = 40;
const CALLS: usize = 5_000;

/// History of a uid: the largest number in a response so far.
static FLOORS: [AtomicU64; UIDS] = [const { AtomicU64::new(0) }; UIDS];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn threads_on_runtimes_of_their_own_never_share_or_turn_numbers() {
    let world = World::new();
    let node = world.start_owning("a1", 0..4).await;
    let worker = |thread: usize| {
        let allocator = node.allocator.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut taken = Vec::with_capacity(CALLS);
                for turn in 0..CALLS {
                    let index = (turn * 7 + thread * 3) % UIDS;
                    let uid = index as u64 * SIZE / 10;
                    let count = if turn % 50 == 0 { 13 } else { 1 };
                    let floor = FLOORS[index].load(SeqCst);
                    let given = allocator.next(call(), ask(uid, count)).await.unwrap();
                    let first = given.value.0 + 1 - u64::from(count);
                    assert!(first > floor, "uid {uid}: {first} after {floor} was answered");
                    assert!(given.prev.0 < first);
                    FLOORS[index].fetch_max(given.value.0, SeqCst);
                    taken.extend((first..=given.value.0).map(|value| (uid, value)));
                }
                taken
            })
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|thread| std::thread::spawn(worker(thread))).collect();
    let mut seen = HashSet::new();
    for thread in threads {
        // The join blocks this thread, while the store and the loops run on the worker thread.
        for number in thread.join().unwrap() {
            assert!(seen.insert(number), "{number:?} was given out twice");
        }
    }
    assert_eq!(node.allocator.status().allocations, seen.len() as u64);
    let most = world.store.state.lock().sections.residents().map(|(_, record)| record.max_seq.0).max().unwrap();
    assert!(seen.iter().all(|(_, value)| *value <= most));
}
