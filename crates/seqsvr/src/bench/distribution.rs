//! Distribution of a load over the uids: the same seed samples the same uids.

use std::ops::Range;

use fastrand::Rng;

use seq_order::User;

/// The distribution of the load over the uids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Distribution {
    /// Every uid is equally likely.
    #[default]
    Uniform,
    /// A few uids take most of the load, as busy groups do: the k-th most frequent uid is sampled 1/k^0.99 as often as
    /// the first.
    Zipf,
    /// Always the first uid.
    Single,
    /// One uid after the other; each worker starts at another place.
    Sequential,
}

/// The skew of [`Distribution::Zipf`]; the usual one of key-value benchmarks.
const SKEW: f64 = 0.99;

/// Spreads the frequent uids of [`Distribution::Zipf`] over all sections; a prime, so that no two ranks collide.
const SCATTER: u64 = 2_654_435_761;

/// Samples users for one worker.
#[derive(Debug)]
pub(crate) struct UidSampler {
    users: u64,
    rng: Rng,
    sampling: Sampling,
}

#[derive(Debug)]
enum Sampling {
    Uniform,
    Zipf(Zipf),
    Single,
    Sequential { next: u64 },
}

impl UidSampler {
    /// The sampler of worker `worker.start` of `worker.end`, over `users` users, 1 or above.
    pub(crate) fn new(distribution: Distribution, users: u32, seed: u64, worker: Range<usize>) -> UidSampler {
        assert!(users > 0);
        let users = u64::from(users);
        // Neighbouring seeds give unrelated streams.
        let rng = Rng::with_seed(seed ^ (worker.start as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let sampling = match distribution {
            Distribution::Uniform => Sampling::Uniform,
            Distribution::Zipf => Sampling::Zipf(Zipf::new(users)),
            Distribution::Single => Sampling::Single,
            Distribution::Sequential => {
                Sampling::Sequential { next: users * worker.start as u64 / worker.end.max(1) as u64 }
            }
        };
        UidSampler { users, rng, sampling }
    }

    /// Samples the next user.
    pub(crate) fn sample(&mut self) -> User {
        let user = match &mut self.sampling {
            Sampling::Uniform => self.rng.u64(..self.users),
            Sampling::Zipf(zipf) => {
                let rank = u128::from(zipf.rank(&mut self.rng) - 1);
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

/// Ranks `1 ..= n` by rejection-inversion (Hörmann and Derflinger, 1996): no table, about one draw each.
#[derive(Debug)]
struct Zipf {
    n: f64,
    /// The area under the curve left of rank 1 and up to the last.
    area: Range<f64>,
    /// Ranks this close to the drawn point are accepted without the second test.
    near: f64,
}

impl Zipf {
    fn new(n: u64) -> Zipf {
        let n = n as f64;
        Zipf { n, area: integral(1.5) - 1.0..integral(n + 0.5), near: 2.0 - inverse(integral(2.5) - height(2.0)) }
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let at = self.area.end + rng.f64() * (self.area.start - self.area.end);
            let x = inverse(at);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.near || at >= integral(rank + 0.5) - height(rank) {
                return rank as u64;
            }
        }
    }
}

fn height(x: f64) -> f64 {
    x.powf(-SKEW)
}

fn integral(x: f64) -> f64 {
    (x.powf(1.0 - SKEW) - 1.0) / (1.0 - SKEW)
}

fn inverse(area: f64) -> f64 {
    (1.0 + area * (1.0 - SKEW)).powf(1.0 / (1.0 - SKEW))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(distribution: Distribution, users: u32, seed: u64, count: usize) -> Vec<u32> {
        let mut sampler = UidSampler::new(distribution, users, seed, 1..4);
        (0..count).map(|_| sampler.sample().0).collect()
    }

    #[test]
    fn a_seed_samples_the_same_uids_again_and_stays_in_range() {
        for sampling in [Distribution::Uniform, Distribution::Zipf, Distribution::Single, Distribution::Sequential] {
            for users in [1, 2, 1_000, u32::MAX] {
                let first = picks(sampling, users, 7, 500);
                assert_eq!(first, picks(sampling, users, 7, 500));
                assert!(first.iter().all(|user| *user < users), "{sampling:?} of {users}");
            }
        }
        assert_ne!(picks(Distribution::Uniform, 1_000, 7, 50), picks(Distribution::Uniform, 1_000, 8, 50));
    }

    #[test]
    fn sequential_workers_start_apart() {
        assert_eq!(picks(Distribution::Sequential, 8, 0, 8), [2, 3, 4, 5, 6, 7, 0, 1]);
    }

    #[test]
    fn zipf_picks_a_rank_as_often_as_it_should() {
        let (users, draws) = (1_000, 200_000);
        let zipf = Zipf::new(users);
        let mut rng = Rng::with_seed(1);
        let mut seen = vec![0u32; users as usize + 1];
        for _ in 0..draws {
            seen[zipf.rank(&mut rng) as usize] += 1;
        }
        let sum: f64 = (1..=users).map(|rank| height(rank as f64)).sum();
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
