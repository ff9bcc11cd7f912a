//! The published bounds of lost writes, read from docs/losses.md: the tests hold what the page promises, and nothing else.

use anyhow::{Context, bail};

use crate::instance::Arch;
use crate::{Result, settings};

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
pub fn bound(arch: Arch, fault: &str) -> Result<Bound> {
    let page = settings::repository().join("docs/losses.md");
    let text = std::fs::read_to_string(&page).with_context(|| format!("{} can't be read", page.display()))?;
    bound_in(section(&text, arch)?, fault)
}

/// From the architecture's heading to the next one.
fn section(page: &str, arch: Arch) -> Result<&str> {
    let name = arch.name();
    let heading = format!("\n## {}{} architecture\n", name[..1].to_uppercase(), &name[1..]);
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

    const PAGE: &str = "| id | what | seconds |\n|---|---|---|\n| `a` | x | none |\n| `b` | y | 7 |\n| `c` | z | all |\n| `d` | | 1 |\n| `d` | | 2 |\n";

    #[test]
    fn bounds() {
        assert_eq!(bound_in(PAGE, "a").unwrap(), Bound::Seconds(0.0));
        assert_eq!(bound_in(PAGE, "b").unwrap(), Bound::Seconds(7.0));
        assert_eq!(bound_in(PAGE, "c").unwrap(), Bound::Everything);
        for missing in ["d", "e"] {
            assert!(bound_in(PAGE, missing).is_err(), "{missing}");
        }
    }

    #[test]
    fn the_page_is_understood() {
        for arch in [Arch::Replica, Arch::Failover { sentinels: 3 }, Arch::Cluster { shards: 3 }] {
            assert_eq!(bound(arch, "hand-over").unwrap(), Bound::Seconds(0.0), "{arch:?}");
            assert_eq!(bound(arch, "all-pods-deleted").unwrap(), Bound::Everything, "{arch:?}");
        }
    }
}
