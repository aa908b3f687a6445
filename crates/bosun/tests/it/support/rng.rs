//! Random choices that can be made again: SplitMix64 from a printed seed.

use std::ops::Range;

#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent source for one worker, so that the order in which workers run changes nothing.
    pub(crate) fn branch(&self, number: u64) -> Self {
        let mut branch = Self(self.0 ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        branch.next();
        branch
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// True in about `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = self.within(0..choices.len() as u64);
        &choices[usize::try_from(index).expect("an index")]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.within(0..last as u64 + 1);
            items.swap(last, usize::try_from(other).expect("an index"));
        }
    }
}
