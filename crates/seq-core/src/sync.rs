//! The atomic types that the counters use. They are the types of `core`, or the types of loom while its model checker
//! runs the tests.

pub(crate) use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use once_cell::race::OnceBox;
#[cfg(loom)]
pub(crate) use tracked::OnceBox;

#[cfg(loom)]
mod tracked {
    use alloc::boxed::Box;

    use super::{AcqRel, Acquire};

    /// A replacement of once_cell's `OnceBox` that loom can track. A compare-and-swap on `present` sets the first
    /// value, and later values are dropped. It has the same memory orderings as the compare-and-swap in once_cell.
    #[derive(Debug)]
    pub(crate) struct OnceBox<T> {
        present: loom::sync::atomic::AtomicBool,
        inner: once_cell::race::OnceBox<T>,
    }

    impl<T> OnceBox<T> {
        pub(crate) fn new() -> OnceBox<T> {
            OnceBox { present: loom::sync::atomic::AtomicBool::new(false), inner: once_cell::race::OnceBox::new() }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.present.load(Acquire).then(|| self.inner.get().expect("present"))
        }

        pub(crate) fn get_or_init(&self, init: impl FnOnce() -> Box<T>) -> &T {
            if !self.present.load(Acquire) {
                let value = init();
                if self.present.compare_exchange(false, true, AcqRel, Acquire).is_ok() {
                    // Nothing is scheduled between two tracked operations, so no thread reads the flag without the
                    // value.
                    assert!(self.inner.set(value).is_ok(), "the winner is alone");
                }
            }
            self.inner.get().expect("present")
        }
    }
}
