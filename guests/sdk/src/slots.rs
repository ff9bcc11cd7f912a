//! Slots as the boundary's ranges, reckoned with by the sets that the host uses too. A slot is 0..=16383; ranges are inclusive at
//! both ends. Ranges that a policy is given may overlap or come in any order; those that these functions give are sorted, with a
//! gap between each two.

use vko_model::slots::{Range, SlotSet};

use crate::common::SlotRange;

/// How many slots there are.
pub const COUNT: u16 = vko_model::slots::SLOTS;

/// A range that ends before it starts holds no slot; what lies beyond the last slot is left out.
fn set(ranges: &[SlotRange]) -> SlotSet {
    ranges.iter().filter_map(|range| Range::new(range.first, range.last.min(COUNT - 1))).collect()
}

fn ranges(set: &SlotSet) -> Vec<SlotRange> {
    set.ranges().iter().map(|range| SlotRange { first: range.first(), last: range.last() }).collect()
}

/// Sorted, without overlaps, neighbours joined. What ends before it starts or lies beyond the last slot is left out.
pub fn normal(slots: &[SlotRange]) -> Vec<SlotRange> {
    ranges(&set(slots))
}

/// How many slots the ranges hold, each counted once.
pub fn count(slots: &[SlotRange]) -> u32 {
    u32::from(set(slots).count())
}

/// The slots of the first that the second lacks.
pub fn minus(slots: &[SlotRange], taken: &[SlotRange]) -> Vec<SlotRange> {
    ranges(&set(slots).difference(&set(taken)))
}

/// The slots that both hold.
pub fn common(a: &[SlotRange], b: &[SlotRange]) -> Vec<SlotRange> {
    ranges(&set(a).intersection(&set(b)))
}

/// The share of one of `parts` when all slots are split evenly. Empty for a part that there isn't.
pub fn share(part: u32, parts: u32) -> Vec<SlotRange> {
    match (u16::try_from(part), u16::try_from(parts)) {
        (Ok(part), Ok(parts)) => ranges(&SlotSet::all().part(part, parts)),
        _ => Vec::new(),
    }
}

/// The text `0-5460,6000` of ranges; empty for none.
pub fn text(ranges: &[SlotRange]) -> String {
    let one = |r: &SlotRange| if r.first == r.last { r.first.to_string() } else { format!("{}-{}", r.first, r.last) };
    ranges.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Ranges out of such a text. Nothing if a part of it is no slot or range.
pub fn parse(text: &str) -> Option<Vec<SlotRange>> {
    text.parse().ok().map(|set| ranges(&set))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(first: u16, last: u16) -> SlotRange {
        SlotRange { first, last }
    }

    #[test]
    fn ranges_are_fewest_sorted_and_within_bounds() {
        let cases: [(&str, &[SlotRange], &[SlotRange], u32); 7] = [
            ("none", &[], &[], 0),
            ("one", &[r(5, 5)], &[r(5, 5)], 1),
            ("neighbours in any order", &[r(3, 3), r(1, 2)], &[r(1, 3)], 3),
            ("a gap", &[r(1, 1), r(3, 3)], &[r(1, 1), r(3, 3)], 2),
            ("overlapping", &[r(4, 6), r(1, 4)], &[r(1, 6)], 6),
            ("ends before it starts", &[r(9, 8)], &[], 0),
            ("the last slot, and beyond it", &[r(16_380, u16::MAX), r(16_384, 16_385)], &[r(16_380, 16_383)], 4),
        ];
        for (name, slots, expected, size) in cases {
            assert_eq!((normal(slots).as_slice(), count(slots)), (expected, size), "{name}");
        }
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
        assert_eq!([0, 1, 2].map(|i| text(&share(i, 3))), ["0-5460", "5461-10922", "10923-16383"]);
        for parts in [1, 3, 5, 127, 128] {
            let all: Vec<SlotRange> = (0..parts).flat_map(|i| share(i, parts)).collect();
            assert_eq!(normal(&all), [r(0, 16_383)], "{parts}");
            assert_eq!(all.iter().map(|r| u32::from(r.last - r.first) + 1).sum::<u32>(), 16_384, "{parts}");
        }
        assert_eq!(share(3, 3), []);
        assert_eq!(share(0, 0), []);
        assert_eq!(share(0, u32::MAX), []);
    }

    #[test]
    fn texts_that_are_no_ranges_are_none() {
        assert_eq!(parse(" 3 , 1-2 "), Some(vec![r(1, 3)]));
        for wrong in ["x", "5-3", "16384", "1-", "0-99999", "-1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
