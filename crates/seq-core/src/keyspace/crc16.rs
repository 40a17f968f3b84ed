//! CRC16 in the variant XMODEM: polynomial 0x1021, the highest bit first, no reflection, and 0 as the initial value and
//! as the final mask.
//!
//! Eight bytes are processed at a time, which takes a fifth of the time of one byte after the other. The checksum is
//! linear, so each of the eight bytes is looked up in a table of its own, and the results are added without carry.

/// Bytes that are processed together.
const LANES: usize = 8;

/// `TABLES[n][b]` is the checksum of the byte `b` followed by `n` zero bytes.
static TABLES: [[u16; 256]; LANES] = tables();

/// Returns the checksum.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    let (chunks, rest) = bytes.as_chunks::<LANES>();
    let mut crc = 0;
    for chunk in chunks {
        let [high, low] = u16::to_be_bytes(crc);
        let [a, b, c, d, e, f, g, h] = *chunk;
        crc = 0;
        // The checksum so far is 16 bits wide, so it changes only the first two bytes.
        for (zeros, byte) in [h, g, f, e, d, c, b ^ low, a ^ high].into_iter().enumerate() {
            crc ^= TABLES[zeros][usize::from(byte)];
        }
    }
    rest.iter().fold(crc, |crc, byte| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)])
}

const fn tables() -> [[u16; 256]; LANES] {
    let mut tables = [[0; 256]; LANES];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut lane = 0;
        while lane < LANES {
            crc = next_byte(crc);
            tables[lane][byte] = crc;
            lane += 1;
        }
        byte += 1;
    }
    tables
}

/// Divides eight more bits.
const fn next_byte(mut crc: u16) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL };
        bit += 1;
    }
    crc
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the checksum bit by bit, from its definition.
    fn bit_by_bit(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc, byte| next_byte(crc ^ (u16::from(*byte) << 8)))
    }

    proptest! {
        #[test]
        fn eight_bytes_at_a_time_are_as_good_as_bits(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            prop_assert_eq!(crc16(&bytes), bit_by_bit(&bytes));
        }
    }

    /// Check values of the catalogue of CRC algorithms and of Redis.
    #[test]
    fn published_checksums() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
        assert_eq!(crc16(b"A"), 0x58e5);
    }
}
