//! Rule 10: nothing dangerous on a stale view, without the Lease, while cut off, or for a spec that has moved on.

use vko_wit::planning::Step;

use super::View;
use crate::execute::names;

pub(super) fn check(step: &Step, view: &View<'_>) -> Result<(), String> {
    if !names::is_dangerous(&step.operation) {
        return Ok(());
    }
    let circumstances = view.circumstances;
    if !circumstances.lease {
        return Err("the Lease is not held for long enough".into());
    }
    if circumstances.cut_off {
        return Err("the operator seems to be cut off from the servers".into());
    }
    if !circumstances.fresh {
        return Err("the view of the cluster is too old: watches are broken or the API server is away".into());
    }
    if !circumstances.current {
        return Err("the spec has moved on since this was planned".into());
    }
    Ok(())
}
