//! Values drawn from bytes: in most cases values that fit the state, sometimes values at an edge, sometimes any values.

use arbitrary::{Result, Unstructured};

/// The ends of ranges, and values around the limits of the code.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    u32::MAX as u64,
    1 << 32,
    (1 << 53) + 1,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 2,
    u64::MAX - 1,
    u64::MAX,
];

/// The remaining bytes.
pub(crate) struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Input<'a> {
        Input(Unstructured::new(data))
    }

    /// Returns whether no byte is left.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a number below `end`, which is 1 or above.
    pub(crate) fn below(&mut self, end: u64) -> Result<u64> {
        self.0.int_in_range(0..=end - 1)
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        self.0.arbitrary()
    }

    /// Returns a number around a number that fits, and in more than half of all cases the number that fits.
    pub(crate) fn around(&mut self, fits: u64) -> Result<u64> {
        Ok(match self.below(16)? {
            0..10 => fits,
            10 => fits.wrapping_add(1),
            11 => fits.wrapping_sub(1),
            12 => fits.wrapping_add(self.0.int_in_range(0..=1_000)?),
            13 | 14 => EDGES[self.below(EDGES.len() as u64)? as usize],
            _ => self.0.arbitrary()?,
        })
    }

    /// Returns a number around a number that fits, in 32 bits.
    pub(crate) fn around_small(&mut self, fits: u32) -> Result<u32> {
        let number = self.around(u64::from(fits))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX - (number >> 32) as u32))
    }

    /// Returns up to `most` values.
    pub(crate) fn some<T>(&mut self, most: u64, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.below(most + 1)?).map(|_| one(self)).collect()
    }
}
