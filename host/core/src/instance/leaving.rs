//! An instance that ends leaves the Sentinels that it shared with others.
//!
//! A monitor that stays behind would have them look for servers at addresses that others get, and re-parent what they find there.
//!
//! # Guarantees
//! 1. Only this data set's monitor is removed.
//! 2. A Sentinel that can't be asked is named in an event, with what to do, and holds nothing up.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use super::Instance;
use super::setup::nobody;
use super::topology::Named;
use crate::accounts::elsewhere;
use crate::command::Command;
use crate::object::{Kind, Object};
use crate::observe::{monitor_name, referenced};
use crate::site::DANGEROUS_DEADLINE;
use crate::world::{EventNote, ServerError, Target, World};

/// For each of them. It is one command, and the end of an instance is waited for.
const DEADLINE: Duration = Duration::from_secs(2);
/// What a Sentinel says of a name that it doesn't watch.
const UNKNOWN: &str = "No such";

impl<W: World> Instance<W> {
    /// Has Sentinels elsewhere forget this data set. Returns what stands against it, for people; nothing once all have.
    pub(super) async fn leave_sentinels(&self, kind: Kind, topology: &Object) -> Vec<String> {
        let spec = topology.0.get("spec").unwrap_or(&Value::Null);
        let all = referenced(spec);
        let Some(name) = monitor_name(&self.key.namespace, &self.key.name, spec).filter(|_| !all.is_empty()) else {
            return Vec::new();
        };
        if !self.shared.lease.covers(DANGEROUS_DEADLINE) {
            return vec!["the Lease doesn't last for it".into()];
        }
        let rendered = self.render_topology(&Named { id: self.own_id(kind), object: topology.clone() });
        let credential = match elsewhere(&*self.shared.world, &rendered).await {
            Ok(credential) => credential.unwrap_or_else(nobody),
            Err(error) => return vec![error.to_string()],
        };
        let forget = all.into_iter().map(|other| {
            let target = Target { pod: other.key, ip: other.ip, port: other.port, credential: credential.clone() };
            let command = Command::SentinelRemove(name.clone());
            async move {
                match self.shared.world.call(&target, command, DEADLINE).await {
                    Ok(_) => None,
                    Err(ServerError::Refused { text, .. }) if text.contains(UNKNOWN) => None,
                    Err(error) => Some(format!("the Sentinel {}: {error}", target.ip)),
                }
            }
        });
        join_all(forget).await.into_iter().flatten().collect()
    }

    /// Says who may still watch a data set that is gone.
    pub(super) async fn tell_left(&self, regarding: &Object, watching: &[String]) {
        if watching.is_empty() {
            return;
        }
        let name = vko_api::names::shared_monitor(&self.key.namespace, &self.key.name);
        let note = format!(
            "Sentinels may still watch {name}, which is gone: {}; end that with SENTINEL REMOVE {name} at each",
            watching.join("; ")
        );
        tracing::warn!(namespace = self.key.namespace, instance = self.key.name, note, "monitors are left behind");
        self.shared.world.event(regarding, EventNote { reason: "MonitorLeftBehind".into(), note, warning: true }).await;
    }
}
