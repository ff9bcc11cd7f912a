//! Folders of tests/scenarios on a real Kubernetes: those marked `bed: quick` in each run, those marked `bed: full` in full ones,
//! one by its name (`VKO_SCENARIO=NAME`). The mock host runs the same folders; they end the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use vko_e2e::settings::Tier;
use vko_e2e::{Result, scenario, settings, skipped, space};
use vko_script::Scenario;

/// One after the other: two cores bear one client that writes.
const AT_ONCE: usize = 1;

#[test]
fn marked_folders_end_as_on_the_mock_host() -> Result {
    let all = Scenario::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios"))?;
    let (named, tier) = (std::env::var("VKO_SCENARIO").ok(), settings::tier()?);
    if named.is_none() && tier == Tier::Quick {
        skipped("scenarios marked 'bed: full' run in full runs")?;
    }
    let chosen = scenario::chosen(all, named.as_deref(), tier)?;
    let cases = chosen.into_iter().rev().map(|scenario| (scenario.name.clone(), scenario)).collect();
    space::side_by_side(AT_ONCE, cases, |_, scenario| scenario::run(scenario))
}
