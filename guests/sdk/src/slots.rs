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

/// Sorted, without overlaps, neighbours joined. What ends before it starts or lies beyond the last slot is left out.
pub fn normal(ranges: &[SlotRange]) -> Vec<SlotRange> {
    let bound = |r: &SlotRange| SlotRange { first: r.first, last: r.last.min(COUNT - 1) };
    let mut sorted: Vec<SlotRange> = ranges.iter().map(bound).filter(|r| r.first <= r.last).collect();
    sorted.sort_unstable_by_key(|r| (r.first, r.last));
    let mut joined: Vec<SlotRange> = Vec::new();
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => last.last = last.last.max(range.last),
            _ => joined.push(range),
        }
    }
    joined
}

/// How many slots the ranges hold, each counted once.
pub fn count(ranges: &[SlotRange]) -> u32 {
    normal(ranges).iter().map(|r| u32::from(r.last - r.first) + 1).sum()
}

/// The slots of the first that the second lacks.
pub fn minus(ranges: &[SlotRange], taken: &[SlotRange]) -> Vec<SlotRange> {
    let taken = normal(taken);
    let mut left = Vec::new();
    for range in normal(ranges) {
        let mut first = u32::from(range.first);
        for cut in taken.iter().filter(|t| t.last >= range.first && t.first <= range.last) {
            left.extend(piece(first, u32::from(cut.first)));
            first = u32::from(cut.last) + 1;
        }
        left.extend(piece(first, u32::from(range.last) + 1));
    }
    left
}

/// The slots from `first` up to, not including, `end`.
fn piece(first: u32, end: u32) -> Option<SlotRange> {
    let last = end.checked_sub(1).filter(|last| *last >= first)?;
    Some(SlotRange { first: u16::try_from(first).ok()?, last: u16::try_from(last).ok()? })
}

/// The slots that both hold.
pub fn common(a: &[SlotRange], b: &[SlotRange]) -> Vec<SlotRange> {
    minus(a, &minus(a, b))
}

/// The share of one of `parts` when all slots are split evenly; the first ones get the rest. Empty for a part that there isn't.
pub fn share(part: u32, parts: u32) -> Vec<SlotRange> {
    if part >= parts {
        return Vec::new();
    }
    let (each, rest) = (u32::from(COUNT) / parts, u32::from(COUNT) % parts);
    let first = part * each + part.min(rest);
    piece(first, first + each + u32::from(part < rest)).into_iter().collect()
}

/// The text `0-5460,6000` of ranges; empty for none.
pub fn text(ranges: &[SlotRange]) -> String {
    let one = |r: &SlotRange| if r.first == r.last { r.first.to_string() } else { format!("{}-{}", r.first, r.last) };
    ranges.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Ranges out of such a text. Nothing if a part of it is no slot or range.
pub fn parse(text: &str) -> Option<Vec<SlotRange>> {
    let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
    let each = parts.map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?);
        (first <= last && last < COUNT).then_some(SlotRange { first, last })
    });
    each.collect::<Option<Vec<_>>>().map(|ranges| normal(&ranges))
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

    #[test]
    fn ranges_are_added_and_taken_away() {
        let cases: [(&str, &str, &str, &str); 6] = [
            ("0-9", "3-5", "0-2,6-9", "3-5"),
            ("0-9", "", "0-9", ""),
            ("0-9", "0-16383", "", "0-9"),
            ("0-4,8-9", "4-8", "0-3,9", "4,8"),
            ("16380-16383", "16383", "16380-16382", "16383"),
            ("5", "6", "5", ""),
        ];
        for (a, b, less, both) in cases {
            let (a, b) = (parse(a).unwrap_or_default(), parse(b).unwrap_or_default());
            assert_eq!(text(&minus(&a, &b)), less, "{} without {}", text(&a), text(&b));
            assert_eq!(text(&common(&a, &b)), both, "{} and {}", text(&a), text(&b));
            assert_eq!(count(&minus(&a, &b)) + count(&common(&a, &b)), count(&a));
        }
    }

    #[test]
    fn shares_cover_all_slots_once() {
        assert_eq!([0, 1, 2].map(|i| text(&share(i, 3))), ["0-5461", "5462-10922", "10923-16383"]);
        for parts in [1, 3, 5, 127, 128] {
            let all: Vec<SlotRange> = (0..parts).flat_map(|i| share(i, parts)).collect();
            assert_eq!(normal(&all), [r(0, 16_383)], "{parts}");
            assert_eq!(all.iter().map(|r| u32::from(r.last - r.first) + 1).sum::<u32>(), 16_384, "{parts}");
        }
        assert_eq!(share(3, 3), []);
        assert_eq!(share(0, 0), []);
    }

    #[test]
    fn texts_that_are_no_ranges_are_none() {
        assert_eq!(parse(" 3 , 1-2 "), Some(vec![r(1, 3)]));
        for wrong in ["x", "5-3", "16384", "1-", "0-99999", "-1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
