//! Sets of slots as ranges. A slot is 0..=16383; ranges are inclusive at both ends.

use std::collections::BTreeSet;

use crate::common::SlotRange;

/// How many slots there are.
pub const COUNT: u16 = 16_384;

/// The slots of these ranges, each once. A range that ends before it starts holds none; what lies beyond the last slot is left out.
pub fn set(ranges: &[SlotRange]) -> BTreeSet<u16> {
    ranges.iter().flat_map(|range| range.first..=range.last.min(COUNT - 1)).collect()
}

/// The fewest ranges that hold exactly these slots, in order.
pub fn ranges(slots: impl IntoIterator<Item = u16>) -> Vec<SlotRange> {
    let sorted: BTreeSet<u16> = slots.into_iter().filter(|slot| *slot < COUNT).collect();
    let mut ranges: Vec<SlotRange> = Vec::new();
    for slot in sorted {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == slot => range.last = slot,
            _ => ranges.push(SlotRange { first: slot, last: slot }),
        }
    }
    ranges
}

/// Whether one of the ranges holds the slot.
pub fn contains(ranges: &[SlotRange], slot: u16) -> bool {
    ranges.iter().any(|range| (range.first..=range.last).contains(&slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(first: u16, last: u16) -> SlotRange {
        SlotRange { first, last }
    }

    #[test]
    fn ranges_are_fewest_sorted_and_within_bounds() {
        let cases: [(&str, &[u16], &[SlotRange]); 6] = [
            ("none", &[], &[]),
            ("one", &[5], &[r(5, 5)]),
            ("neighbours in any order", &[3, 1, 2], &[r(1, 3)]),
            ("a gap", &[1, 3], &[r(1, 1), r(3, 3)]),
            ("twice the same", &[7, 7], &[r(7, 7)]),
            ("the last slot, and beyond it", &[16_383, 16_384, u16::MAX], &[r(16_383, 16_383)]),
        ];
        for (name, slots, expected) in cases {
            assert_eq!(ranges(slots.iter().copied()), expected, "{name}");
        }
    }

    #[test]
    fn set_is_the_inverse_of_ranges() {
        let all = [r(0, 16_383)];
        assert_eq!(set(&all).len(), usize::from(COUNT));
        assert_eq!(ranges(set(&all)), all);
        assert_eq!(ranges(set(&[r(4, 6), r(1, 4), r(9, 8), r(16_380, u16::MAX)])), [r(1, 6), r(16_380, 16_383)]);
    }

    #[test]
    fn both_ends_belong_to_a_range() {
        let ranges = [r(10, 20)];
        assert!(contains(&ranges, 10) && contains(&ranges, 20));
        assert!(!contains(&ranges, 9) && !contains(&ranges, 21));
    }
}
