//! Sets of slots. A cluster has 16,384, named 0 to 16,383; each key belongs to one.

use std::fmt;
use std::str::FromStr;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// Why a text is no set of slots. The variant is the metric label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// Neither a number nor two with a dash between them.
    #[error("'{0}' is no slot and no range of slots: write 7 or 0-5460")]
    Malformed(String),
    /// Beyond the last slot, or from a higher to a lower one.
    #[error("'{0}' is no range of slots: they go from 0 to 16383, the lower one first")]
    OutOfRange(String),
}

impl SlotError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "Malformed",
            Self::OutOfRange(_) => "OutOfRange",
        }
    }
}

/// A range of slots, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    first: u16,
    last: u16,
}

impl Range {
    /// From the first to the last slot; `None` if that is no range of slots.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first <= last && last < SLOTS { Some(Self { first, last }) } else { None }
    }

    /// The lowest slot.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest slot.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// How many slots: at least one.
    pub const fn count(self) -> u16 {
        self.last - self.first + 1
    }
}

impl fmt::Display for Range {
    /// `7` or `0-5460`, as servers write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl FromStr for Range {
    type Err = SlotError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            // A number too large for its type is no malformed one.
            plain.then(|| digits.parse().unwrap_or(u16::MAX)).ok_or_else(|| SlotError::Malformed(text.to_owned()))
        };
        Self::new(number(first)?, number(last)?).ok_or_else(|| SlotError::OutOfRange(text.to_owned()))
    }
}

/// A set of slots, as the fewest ranges that make it up, in order. Equal sets are equal values.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotSet {
    ranges: Vec<Range>,
}

impl SlotSet {
    /// All slots.
    pub fn all() -> Self {
        Self { ranges: vec![Range { first: 0, last: SLOTS - 1 }] }
    }

    /// The ranges, in order, with a gap between each two.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// How many slots.
    pub fn count(&self) -> u16 {
        self.ranges.iter().map(|range| range.count()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether there are all of them.
    pub fn is_all(&self) -> bool {
        self.count() == SLOTS
    }

    /// The slots in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.ranges.iter().flat_map(|range| range.first..=range.last)
    }

    /// Whether a slot is one of them.
    pub fn contains(&self, slot: u16) -> bool {
        let after = self.ranges.partition_point(|range| range.first <= slot);
        self.ranges[..after].last().is_some_and(|range| slot <= range.last)
    }

    /// What is in either.
    pub fn union(&self, other: &Self) -> Self {
        self.ranges.iter().chain(&other.ranges).copied().collect()
    }

    /// What is in this one and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut cuts = other.ranges.iter().copied().peekable();
        for range in &self.ranges {
            let mut first = range.first;
            while cuts.next_if(|cut| cut.last < first).is_some() {}
            // The last cut may reach into the next range: it stays to be looked at again.
            while let Some(cut) = cuts.peek().copied().filter(|cut| cut.first <= range.last) {
                left.extend(cut.first.checked_sub(1).and_then(|last| Range::new(first, last)));
                first = cut.last + 1;
                if cut.last >= range.last {
                    break;
                }
                cuts.next();
            }
            left.extend(Range::new(first, range.last));
        }
        Self { ranges: left }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        self.difference(&self.difference(other))
    }

    /// Parts in order, whose sizes differ by one at most: of all slots for three, 0-5460, 5461-10922 and 10923-16383. Empty for
    /// no parts; more parts than slots leave some empty.
    pub fn split(&self, parts: u16) -> Vec<Self> {
        (0..parts).map(|number| self.part(number, parts)).collect()
    }

    /// One of the parts of [`Self::split`], counted from 0. Empty for a part that there isn't.
    pub fn part(&self, number: u16, parts: u16) -> Self {
        if number >= parts {
            return Self::default();
        }
        let (count, parts) = (u32::from(self.count()), u32::from(parts));
        // Where a part ends, rounded to the nearest slot.
        let end = |part: u32| (2 * part * count + parts) / (2 * parts);
        let number = u32::from(number);
        self.ranked(end(number)..end(number + 1))
    }

    /// The slots of which so many are before them in the set.
    fn ranked(&self, ranks: std::ops::Range<u32>) -> Self {
        let mut before = 0;
        let mut within = |range: &Range| {
            let (start, end) = (before, before + u32::from(range.count()));
            before = end;
            let (from, to) = (ranks.start.clamp(start, end) - start, ranks.end.clamp(start, end) - start);
            let slot = |offset: u32| Some(range.first + u16::try_from(offset).ok()?);
            Range::new(slot(from)?, slot(to.checked_sub(1)?)?)
        };
        Self { ranges: self.ranges.iter().filter_map(&mut within).collect() }
    }
}

impl FromIterator<Range> for SlotSet {
    /// Ranges in any order; they may overlap.
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().collect();
        sorted.sort_unstable();
        let mut merged: Vec<Range> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(before) if range.first <= before.last + 1 => before.last = before.last.max(range.last),
                _ => merged.push(range),
            }
        }
        Self { ranges: merged }
    }
}

impl fmt::Display for SlotSet {
    /// Ranges with blanks between them, as servers write them: `0-5460 5462`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{range}")?;
        }
        Ok(())
    }
}

impl FromStr for SlotSet {
    type Err = SlotError;

    /// Ranges with blanks or commas between them, in any order; none is the empty set.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        words.map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> SlotSet {
        text.parse().unwrap()
    }

    #[test]
    fn texts_have_one_normal_form() {
        let cases = [
            ("", "", 0),
            ("7", "7", 1),
            ("0-5460", "0-5460", 5461),
            ("5462 0-5460", "0-5460 5462", 5462),
            ("0-5460,5461", "0-5461", 5462),
            ("3-9 1-4 10", "1-10", 10),
            (" 1-5  2-3 ", "1-5", 5),
            ("16383", "16383", 1),
            ("0-16383", "0-16383", 16_384),
        ];
        for (text, expected, count) in cases {
            assert_eq!((set(text).to_string().as_str(), set(text).count()), (expected, count), "{text:?}");
            assert_eq!(set(&set(text).to_string()), set(text), "{text:?}");
        }
        assert_eq!(set("0-16383"), SlotSet::all());
    }

    #[test]
    fn what_is_no_slot_is_refused() {
        let cases = [
            ("a", "Malformed"),
            ("-5", "Malformed"),
            ("5-", "Malformed"),
            ("+5", "Malformed"),
            ("1-2-3", "Malformed"),
            ("[5->-abc]", "Malformed"),
            ("16384", "OutOfRange"),
            ("0-16384", "OutOfRange"),
            ("9-3", "OutOfRange"),
            ("99999999999999999999", "OutOfRange"),
        ];
        for (text, reason) in cases {
            assert_eq!(text.parse::<SlotSet>().unwrap_err().reason(), reason, "{text:?}");
        }
    }

    #[test]
    fn sets_are_joined_and_cut() {
        // one, other, union, one without other, both
        let cases = [
            ("", "", "", "", ""),
            ("1-5", "", "1-5", "1-5", ""),
            ("", "1-5", "1-5", "", ""),
            ("1-5", "6-9", "1-9", "1-5", ""),
            ("1-5", "3-9", "1-9", "1-2", "3-5"),
            ("1-9", "3-5", "1-9", "1-2 6-9", "3-5"),
            ("3-5", "1-9", "1-9", "", "3-5"),
            ("1-3 5-7 9", "2-6", "1-7 9", "1 7 9", "2-3 5-6"),
            ("1-9", "1 3 5 7 9", "1-9", "2 4 6 8", "1 3 5 7 9"),
            ("0-16383", "0 16383", "0-16383", "1-16382", "0 16383"),
            ("0-3 6-9", "0-16383", "0-16383", "", "0-3 6-9"),
        ];
        for (one, other, union, difference, intersection) in cases {
            let (one, other) = (set(one), set(other));
            let text = |set: SlotSet| set.to_string();
            assert_eq!(text(one.union(&other)), union, "{one} and {other}");
            assert_eq!(text(one.difference(&other)), difference, "{one} and {other}");
            assert_eq!(text(one.intersection(&other)), intersection, "{one} and {other}");
        }
    }

    #[test]
    fn membership() {
        let some = set("0-3 7 9-16383");
        let cases =
            [(0, true), (3, true), (4, false), (6, false), (7, true), (8, false), (9, true), (16_383, true), (16_384, false)];
        for (slot, expected) in cases {
            assert_eq!(some.contains(slot), expected, "{slot}");
        }
        assert!(some.iter().all(|slot| some.contains(slot)));
        assert!(!some.is_all() && SlotSet::all().is_all() && SlotSet::default().is_empty());
    }

    #[test]
    fn even_parts() {
        let text = |parts| SlotSet::all().split(parts).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(text(0), [""; 0]);
        assert_eq!(text(1), ["0-16383"]);
        assert_eq!(text(3), ["0-5460", "5461-10922", "10923-16383"]);
        assert_eq!(text(4), ["0-4095", "4096-8191", "8192-12287", "12288-16383"]);
        assert_eq!(set("1-3 8 20").split(2).iter().map(ToString::to_string).collect::<Vec<_>>(), ["1-3", "8 20"]);
        for parts in [1, 2, 3, 5, 7, 64, 1000, 16_384] {
            let split = SlotSet::all().split(parts);
            let sizes: Vec<_> = split.iter().map(SlotSet::count).collect();
            assert_eq!(sizes.len(), usize::from(parts));
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{parts}");
            assert_eq!(split.iter().fold(SlotSet::default(), |all, part| all.union(part)), SlotSet::all(), "{parts}");
        }
        assert_eq!(set("5").split(3).iter().filter(|part| part.is_empty()).count(), 2);
    }
}
