//! Compound procedures: more than one command, each an effect of its own, in the order in which a crash between any two does no
//! harm.

pub mod cluster;
pub mod detach;
pub mod fence;
pub mod hand_over;
pub mod promote;
pub mod sentinel;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::command::{Command, Reply, RoleReply};
use crate::site::{DANGEROUS_DEADLINE, Site};
use crate::world::{Target, World};

/// Between two looks at what should come about. There is no event for it.
const POLL: Duration = Duration::from_millis(50);

/// Asks until the answer is yes, or the time is over.
async fn until<W: World, F: Future<Output = bool>>(site: &Site<W>, limit: Duration, asks: impl Fn() -> F) -> bool {
    let end = site.world.monotonic() + limit;
    while !asks().await {
        if site.world.monotonic() >= end {
            return false;
        }
        site.world.sleep(POLL).await;
    }
    true
}

/// Whether a server says on a new connection that it is a primary: a change of role ends the connections of before.
async fn is_primary<W: World>(site: &Site<W>, target: &Target) -> bool {
    let role = site.world.call_fresh(target, Command::Role, DANGEROUS_DEADLINE).await;
    matches!(role, Ok(Reply::Role(RoleReply::Primary { .. })))
}

/// Servers that answered when they were last asked: pod UID and name. Those that didn't are the guard's business.
fn answering<W: World>(site: &Site<W>) -> Vec<(String, String)> {
    let memory = site.memory.snapshot();
    let answers = |uid: &String| memory.get(uid).is_none_or(|server| server.failing_since.is_none());
    site.all_targets().into_iter().filter(|(uid, ..)| answers(uid)).map(|(uid, name, _)| (uid, name)).collect()
}
