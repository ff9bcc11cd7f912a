//! The published bounds of lost writes, read from docs/losses.md: the tests hold what the page promises, and nothing else.

use anyhow::{Context, bail};

use crate::Result;

/// The page, as it was when this was built.
const PAGE: &str = include_str!("../../../docs/losses.md");

/// What may be lost of acknowledged writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// So many seconds of writes; zero: none.
    Seconds(f64),
    /// All of them.
    Everything,
}

/// The bound of a fault, by its id in the table of an architecture.
///
/// # Errors
/// The page has no such row, or more than one.
pub fn bound(arch: &str, fault: &str) -> Result<Bound> {
    bound_in(section(PAGE, arch)?, fault)
}

/// The faults that the page has a bound for, of an architecture, by their ids.
///
/// # Errors
/// The page has no such architecture.
pub fn faults(arch: &str) -> Result<Vec<&'static str>> {
    Ok(faults_in(section(PAGE, arch)?))
}

fn faults_in(text: &str) -> Vec<&str> {
    let rows = text.lines().filter_map(|line| line.trim().strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(id, _)| id).collect()
}

/// From the architecture's heading to the next one.
fn section<'a>(page: &'a str, name: &str) -> Result<&'a str> {
    let first = name.get(..1).unwrap_or_default();
    let heading = format!("\n## {}{} architecture\n", first.to_uppercase(), &name[first.len()..]);
    let (_, rest) = page.split_once(&heading).with_context(|| format!("docs/losses.md has no heading {heading:?}"))?;
    Ok(rest.split_once("\n## ").map_or(rest, |(section, _)| section))
}

/// Rows are `| id | ... | bound |`.
fn bound_in(text: &str, fault: &str) -> Result<Bound> {
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|'))
        .map(|row| row.split('|').map(str::trim).collect())
        .filter(|cells: &Vec<&str>| cells.first().is_some_and(|id| id.trim_matches('`') == fault))
        .collect();
    let [row] = rows.as_slice() else { bail!("docs/losses.md has {} rows for {fault:?}; it must have one", rows.len()) };
    match row.last().copied().unwrap_or_default() {
        "all" => Ok(Bound::Everything),
        "none" => Ok(Bound::Seconds(0.0)),
        seconds => Ok(Bound::Seconds(
            seconds.parse().with_context(|| format!("the bound of {fault} is {seconds:?}; use none, all or seconds"))?,
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TABLE: &str = "| id | what | seconds |\n|---|---|---|\n| `a` | x | none |\n| `b` | y | 7 |\n| `c` | z | all |\n| `d` | | 1 |\n| `d` | | 2 |\n";

    #[test]
    fn bounds() {
        assert_eq!(bound_in(TABLE, "a").unwrap(), Bound::Seconds(0.0));
        assert_eq!(bound_in(TABLE, "b").unwrap(), Bound::Seconds(7.0));
        assert_eq!(bound_in(TABLE, "c").unwrap(), Bound::Everything);
        assert_eq!(faults_in(TABLE), ["a", "b", "c", "d", "d"], "without the heading");
        for missing in ["d", "e"] {
            assert!(bound_in(TABLE, missing).is_err(), "{missing}");
        }
    }

    #[test]
    fn the_page_is_understood() {
        for arch in ["replica", "failover", "cluster"] {
            assert_eq!(bound(arch, "hand-over").unwrap(), Bound::Seconds(0.0), "{arch:?}");
            assert_eq!(bound(arch, "all-pods-deleted").unwrap(), Bound::Everything, "{arch:?}");
        }
    }
}
