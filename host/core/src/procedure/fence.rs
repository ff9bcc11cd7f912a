//! The fence of a primary: `min-replicas-to-write` with `min-replicas-max-lag`. A primary that hears fewer replicas than that
//! refuses writes by itself, at most max-lag + 2 s after it lost them (measured), so that another may be promoted.
//!
//! # Guarantees
//! The ledger never claims more than holds: a higher fence is written there after it was read back, a lower one before it is set.
//! (A crash between the two leaves a fence that nobody relies on.)
//!
//! # Flow
//! Raising: 1. CONFIG SET. 2. CONFIG GET. 3. Ledger. Lowering: 1. Ledger. 2. CONFIG SET.

use crate::command::{Command, ConfigValue, Reply};
use crate::execute::ExecuteError;
use crate::ledger::{Fence, Ledger};
use crate::site::Site;
use crate::world::World;

/// Sets the fence of a pod's server to this height; zero lifts it.
///
/// # Errors
/// What the server or the API server said; or that the value read back is another one.
pub async fn run<W: World>(site: &Site<W>, pod: &str, min_replicas: u32) -> Result<(), ExecuteError> {
    let (name, _) = site.target(pod)?;
    let run_id = site.look(pod).await?.run_id;
    let Some(run_id) = run_id.filter(|id| !id.is_empty()) else {
        return Err(ExecuteError::NotVerified(format!("{name} does not say which run it is in: a fence binds one run")));
    };
    let ledger = site.store.ledger().await;
    let known = ledger.fences.iter().find(|f| f.pod == pod && f.run_id == run_id).map_or(0, |f| f.min_replicas);
    let fence = Fence {
        pod: pod.into(),
        run_id,
        min_replicas,
        max_lag_ms: vko_model::config::FENCE_MAX_LAG_MS,
        set_at: site.world.unix_ms(),
        detached_at: 0,
    };
    if min_replicas < known {
        site.store.change(|ledger| put(ledger, fence)).await?;
        site.send(pod, setting(min_replicas)).await?;
        return Ok(());
    }
    site.send(pod, setting(min_replicas)).await?;
    read_back(site, pod, &name, min_replicas).await?;
    Ok(site.store.change(|ledger| put(ledger, fence)).await?)
}

fn put(ledger: &mut Ledger, fence: Fence) {
    ledger.drop_fence(&fence.pod);
    if fence.min_replicas > 0 {
        ledger.fences.push(fence);
    }
}

fn setting(min_replicas: u32) -> Command {
    let text = |value: String| ConfigValue::Text(value);
    Command::ConfigSet(vec![
        ("min-replicas-max-lag".into(), text(vko_model::config::FENCE_MAX_LAG_S.to_string())),
        ("min-replicas-to-write".into(), text(min_replicas.to_string())),
    ])
}

async fn read_back<W: World>(site: &Site<W>, pod: &str, name: &str, min_replicas: u32) -> Result<(), ExecuteError> {
    let names = vec!["min-replicas-to-write".to_owned(), "min-replicas-max-lag".to_owned()];
    let wanted = [
        ("min-replicas-to-write", min_replicas.to_string()),
        ("min-replicas-max-lag", vko_model::config::FENCE_MAX_LAG_S.to_string()),
    ];
    let Reply::Pairs(pairs) = site.send(pod, Command::ConfigGet(names)).await? else {
        return Err(ExecuteError::NotVerified(format!("{name} did not show its fence")));
    };
    match wanted.iter().find(|(key, value)| pairs.get(*key) != Some(value)) {
        None => Ok(()),
        Some((key, value)) => {
            Err(ExecuteError::NotVerified(format!("{name} has {key} {:?} instead of {value}", pairs.get(*key))))
        }
    }
}
