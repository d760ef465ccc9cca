//! A digest by which keys are told apart quickly; equal keys have equal ones.

use std::hash::Hasher;

/// An odd number with its bits well mixed (Knuth, TAOCP volume 3, section 6.4: multiplicative
/// hashing by the golden ratio).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Digests what is written to it. It keeps nobody from making two keys with one digest: only the
/// speed depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Print(u64);

impl Print {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(GOLDEN);
    }
}

impl Hasher for Print {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
