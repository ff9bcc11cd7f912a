//! Apply to Ready, for each architecture, beside the same servers without an operator.

use std::time::Instant;

use serde_json::Value;
use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::{Result, operator, space};

use crate::bare;
use crate::table::Series;

const ROUNDS: u32 = 3;

pub(crate) fn run() -> Result {
    let _operator = operator::alone()?;
    let subjects = [
        ("replica, 3 members", Wanted::default()),
        ("failover, 2 members and 3 Sentinels", Wanted::failover(2, 3)),
        ("cluster, 3x2", Wanted::cluster(3, 2)),
    ];
    for (name, wanted) in subjects {
        let (mut ours, mut bare) = (Series::default(), Series::default());
        for round in 0..ROUNDS {
            let sets = ours_once(&wanted, round, &mut ours)?;
            space::with(&format!("bench-bare-{round}"), |namespace| {
                bare.push(bare::start(namespace, &sets)?);
                Ok(())
            })?;
        }
        ours.print(&format!("{name}: apply to Ready"));
        bare.print(&format!("{name}: bare StatefulSets"));
        if let (Some(ours), Some(bare)) = (ours.median(), bare.median()) {
            println!("{name}: difference {} ms", ours.as_millis() as i128 - bare.as_millis() as i128);
        }
    }
    Ok(())
}

/// One creation; the StatefulSets that it made, as bare ones.
fn ours_once(wanted: &Wanted, round: u32, times: &mut Series) -> Result<Vec<Value>> {
    let mut sets = Vec::new();
    space::with(&format!("bench-{}-{round}", wanted.arch.name()), |namespace| {
        let began = Instant::now();
        let instance = Instance::apply(namespace, "x", wanted)?;
        instance.wait_ready()?;
        times.push(began.elapsed());
        sets = bare::like(&instance)?;
        Ok(())
    })?;
    Ok(sets)
}
