//! Samplers that choose the users of a load's calls, by a distribution over the uids. With the same seed, a sampler
//! chooses the same users.

use std::ops::Range;

use fastrand::Rng;
use rand_distr::{Distribution as _, Zipf};
use seq_order::User;
use serde::Serialize;

/// The distribution of the load over the uids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Every uid is equally likely.
    #[default]
    Uniform,
    /// Zipf's law, by which a few uids get a large part of the calls, like busy chat groups. The k-th most frequent uid
    /// is sampled 1/k^0.99 times as often as the most frequent uid.
    Zipf,
    /// Always the first uid.
    Single,
    /// Uids in ascending order; each worker starts at a different place.
    Sequential,
}

/// Exponent of [`Distribution::Zipf`]. Benchmarks of key-value stores usually have this value.
const SKEW: f64 = 0.99;

/// Factor that spreads the most frequent uids of [`Distribution::Zipf`] over all sections. The user with the rank k by
/// frequency, from 0, is `k * SCATTER` modulo the number of users. `SCATTER` is a prime number, so that no two ranks
/// get the same uid.
const SCATTER: u64 = 2_654_435_761;

/// Sampler of users for one worker.
#[derive(Debug)]
pub struct UidSampler {
    users: u64,
    rng: Rng,
    sampling: Sampling,
}

#[derive(Debug)]
enum Sampling {
    Uniform,
    Zipf(Zipf<f64>),
    Single,
    Sequential { next: u64 },
}

impl UidSampler {
    /// Creates the sampler of one worker, which samples from `users` users. `worker.start` is the index of the worker,
    /// and `worker.end` is the number of workers.
    ///
    /// # Panics
    /// If `users` is 0.
    #[must_use]
    pub fn new(distribution: Distribution, users: u32, seed: u64, worker: Range<usize>) -> UidSampler {
        assert!(users > 0);
        let users = u64::from(users);
        // The multiplication makes the random streams of neighbouring workers unrelated.
        let rng = Rng::with_seed(seed ^ (worker.start as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let sampling = match distribution {
            Distribution::Uniform => Sampling::Uniform,
            Distribution::Zipf => {
                Sampling::Zipf(Zipf::new(users as f64, SKEW).expect("there is a user, and the skew is positive"))
            }
            Distribution::Single => Sampling::Single,
            Distribution::Sequential => {
                Sampling::Sequential { next: users * worker.start as u64 / worker.end.max(1) as u64 }
            }
        };
        UidSampler { users, rng, sampling }
    }

    /// Samples the next user.
    pub fn sample(&mut self) -> User {
        let user = match &mut self.sampling {
            Sampling::Uniform => self.rng.u64(..self.users),
            Sampling::Zipf(zipf) => {
                let rank = zipf.sample(&mut Random(&mut self.rng)) as u128 - 1;
                (rank * u128::from(SCATTER) % u128::from(self.users)) as u64
            }
            Sampling::Single => 0,
            Sampling::Sequential { next } => {
                let user = *next;
                *next = (user + 1) % self.users;
                user
            }
        };
        User(u32::try_from(user).expect("users were counted in 32 bits"))
    }
}

/// Adapter by which `rand_distr` draws from a [`fastrand::Rng`].
struct Random<'a>(&'a mut Rng);

impl rand_core::TryRng for Random<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0.u32(..))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.u64(..))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(distribution: Distribution, users: u32, seed: u64, count: usize) -> Vec<u32> {
        let mut sampler = UidSampler::new(distribution, users, seed, 1..4);
        (0..count).map(|_| sampler.sample().0).collect()
    }

    #[test]
    fn a_seed_samples_the_same_uids_again_and_stays_in_range() {
        for sampling in [Distribution::Uniform, Distribution::Zipf, Distribution::Single, Distribution::Sequential] {
            for users in [1, 2, 1_000, u32::MAX] {
                let first = samples(sampling, users, 7, 500);
                assert_eq!(first, samples(sampling, users, 7, 500));
                assert!(first.iter().all(|user| *user < users), "{sampling:?} of {users}");
            }
        }
        assert_ne!(samples(Distribution::Uniform, 1_000, 7, 50), samples(Distribution::Uniform, 1_000, 8, 50));
    }

    #[test]
    fn sequential_workers_start_apart() {
        assert_eq!(samples(Distribution::Sequential, 8, 0, 8), [2, 3, 4, 5, 6, 7, 0, 1]);
    }

    #[test]
    fn zipf_samples_a_rank_with_its_frequency() {
        let (users, draws) = (1_000u32, 200_000u32);
        let zipf = Zipf::new(users as f64, SKEW).unwrap();
        let mut rng = Rng::with_seed(1);
        let height = |rank: f64| rank.powf(-SKEW);
        let mut seen = vec![0u32; users as usize + 1];
        for _ in 0..draws {
            seen[zipf.sample(&mut Random(&mut rng)) as usize] += 1;
        }
        let sum: f64 = (1..=users).map(|rank| height(f64::from(rank))).sum();
        for rank in [1usize, 2, 3, 10, 100] {
            let expected = f64::from(draws) * height(rank as f64) / sum;
            let off = (f64::from(seen[rank]) - expected).abs() / expected.sqrt();
            assert!(off < 5.0, "rank {rank}: {} of {expected}", seen[rank]);
        }
    }

    #[test]
    fn zipf_scatters_without_collisions() {
        let users = 10_007u128;
        let mut places: Vec<_> = (0..users).map(|rank| rank * u128::from(SCATTER) % users).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len() as u128, users);
    }
}
