//! From a Sentinel's `+switch-master` to the role label, with the light probe set to an hour: only the event can have told.

use std::time::{Duration, Instant};

use anyhow::Context;
use vko_e2e::instance::{Instance, MONITOR, Wanted};
use vko_e2e::{Result, operator, space};

use crate::table::Series;

const ROUNDS: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run() -> Result {
    let _operator = operator::alone()?;
    operator::set_probe_interval(Some(3_600_000))?;
    let measured = space::with("bench-label", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted::failover(2, 3))?;
        let mut times = Series::default();
        for _ in 0..ROUNDS {
            times.push(switch(&instance)?);
            instance.wait_settled(5)?;
        }
        times.print("+switch-master to label");
        Ok(())
    });
    operator::set_probe_interval(None)?;
    measured
}

fn switch(instance: &Instance) -> Result<Duration> {
    let former = instance.primary()?;
    let sentinel = instance.sentinels()?.into_iter().next().context("no Sentinel")?;
    let login = instance.at_sentinel(&sentinel, "operator")?;
    let mut listener = login.connect()?;
    listener.set_read_timeout(Some(PATIENCE))?;
    let mut events = listener.as_pubsub();
    events.subscribe("+switch-master")?;
    let asked: String = login.ask(&["SENTINEL", "FAILOVER", MONITOR])?;
    anyhow::ensure!(asked == "OK", "SENTINEL FAILOVER answers {asked}");
    events.get_message().context("no switch")?;
    let began = Instant::now();
    instance.wait_primary_other_than(&former)?;
    Ok(began.elapsed())
}
