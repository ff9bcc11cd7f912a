//! What people see: phase, conditions, nodes, shards. Derived from the observation at each look, never remembered.

use serde::Serialize;
use vko_replica::decision::BY_ITSELF;
use vko_replica::fence::synced;
use vko_replica::status::{condition, refuses_writes, stalled, under_way};
use vko_replica::view::Standing;
use vko_sdk::planning::{Condition, Phase, Status, Truth};
use vko_sdk::slots;

use crate::cause::{Cause, Decision};
use crate::view::{Node, Shard, View};

/// Names in a message end here: a cluster may have hundreds of members.
const NAMED_MAX: usize = 8;

/// What the status is made of.
pub struct Picture<'v, 'a> {
    view: &'v View<'a>,
    decision: &'v Decision,
    /// Shards whose slots nobody serves, with why.
    down: Vec<String>,
    /// Members that aren't as they should be, with why.
    missing: Vec<String>,
    /// Shards whose primary has no synced replica, though it should have one.
    bare: Vec<&'v str>,
}

impl<'v, 'a> Picture<'v, 'a> {
    /// Looks at what is there.
    pub fn new(view: &'v View<'a>, decision: &'v Decision) -> Self {
        let mut picture = Self { view, decision, down: Vec::new(), missing: Vec::new(), bare: Vec::new() };
        for shard in &view.shards {
            let primary = primary(view, shard);
            match primary {
                None => picture.down.push(format!("{} has no primary", shard.workload)),
                Some(p) if p.says.is_some_and(|s| !s.state_ok) => {
                    picture.down.push(format!("{} says that the cluster is down", p.member.name))
                }
                Some(_) => {}
            }
            let each = shard.nodes.iter().filter_map(|n| Some(format!("{} ({})", n.member.name, wrong(view, primary, n)?)));
            picture.missing.extend(each);
            let copies = primary.map_or(0, |p| shard.nodes.iter().filter(|n| synced(&p.member, &n.member)).count());
            if copies == 0 {
                picture.bare.push(&shard.workload);
            }
        }
        let unowned = slots::minus(&slots::share(0, 1), &owned(view));
        if !unowned.is_empty() {
            picture.down.push(format!("nobody owns the slots {}", slots::text(&unowned)));
        }
        picture
    }

    /// Whether all is as declared.
    pub fn ready(&self) -> bool {
        let formed = self.view.observed.ledger.formed.is_some();
        formed
            && self.in_service()
            && self.missing.is_empty()
            && self.decision.data_lost.is_none()
            && self.decision.tracks.is_empty()
    }

    /// Whether every slot is served.
    pub fn in_service(&self) -> bool {
        self.down.is_empty()
    }

    /// The status.
    pub fn status(&self) -> Status {
        let ready = self.ready_condition();
        let message = ready.message.clone();
        let progressing =
            under_way(self.decision).unwrap_or_else(|| condition("Progressing", Truth::No, "NothingToDo", String::new()));
        let mut conditions = vec![ready, self.degraded(), self.redundant(), progressing, stalled(self.decision)];
        let lost = self.decision.data_lost.clone();
        conditions.extend(lost.map(|text| condition("DataLost", Truth::Yes, "DataLost", text)));
        Status { phase: self.phase(), message, conditions, details: self.details() }
    }

    fn ready_condition(&self) -> Condition {
        let of = |state, reason: &str, message: String| condition("Ready", state, reason, message);
        let block = self.decision.blocks.first();
        if self.view.observed.ledger.formed.is_none() {
            return of(Truth::Unknown, &format!("{:?}", Cause::LedgerLost), block.map_or(String::new(), |b| b.message.clone()));
        }
        if self.ready() {
            let text = format!("{} shards, {} members, all slots served", self.view.shards.len(), self.view.answering);
            return of(Truth::Yes, "AllMembersSynced", text);
        }
        if let Some(lost) = &self.decision.data_lost {
            return of(Truth::No, "DataLost", lost.clone());
        }
        if !self.in_service() {
            let (reason, text) = match block {
                _ if self.view.observed.ledger.formed == Some(false) => ("Creating".into(), some(&self.down)),
                Some(block) => (format!("{:?}", block.cause), block.message.clone()),
                None => ("SlotsNotServed".into(), some(&self.down)),
            };
            // A silent primary may be serving.
            let silent = block.is_some_and(|b| b.cause == Cause::PrimarySilent);
            return of(if silent { Truth::Unknown } else { Truth::No }, &reason, text);
        }
        match block {
            Some(block) if self.missing.is_empty() => of(Truth::No, &format!("{:?}", block.cause), block.message.clone()),
            _ if self.missing.is_empty() => {
                of(Truth::No, "StepsUnderWay", "all members are synced; the last steps are under way".into())
            }
            _ => of(Truth::No, "MembersNotSynced", format!("not synced or not ready: {}", some(&self.missing))),
        }
    }

    fn degraded(&self) -> Condition {
        match (self.missing.is_empty(), self.in_service()) {
            (true, true) => condition("Degraded", Truth::No, "AllMembersSynced", String::new()),
            (false, _) => condition("Degraded", Truth::Yes, "MembersNotSynced", some(&self.missing)),
            (true, false) => condition("Degraded", Truth::Yes, "SlotsNotServed", some(&self.down)),
        }
    }

    fn redundant(&self) -> Condition {
        let of = |state, reason, message| condition("Redundant", state, reason, message);
        if self.view.spec.replicas.replicas_of_shard == 1 {
            return of(Truth::No, "SingleMember", "shards have one member".into());
        }
        match self.bare.first() {
            None => of(Truth::Yes, "SyncedReplica", "every shard has a synced replica".into()),
            Some(first) => {
                of(Truth::No, "NoSyncedReplica", format!("{} shard(s) without a synced replica, {first} first", self.bare.len()))
            }
        }
    }

    fn phase(&self) -> Phase {
        if self.view.observed.instance.paused {
            return Phase::Paused;
        }
        if self.ready() {
            return Phase::Ready;
        }
        let stuck = self.decision.blocks.iter().any(|b| b.remedy != BY_ITSELF);
        match (self.in_service(), stuck) {
            (false, true) => Phase::Failed,
            (false, false) if self.view.observed.ledger.formed == Some(false) => Phase::Initializing,
            _ => Phase::Rebalancing,
        }
    }

    fn details(&self) -> String {
        let nodes = self.view.nodes().filter(|n| n.member.pod.is_some()).map(|n| Item::of(self.view, n)).collect();
        let shards = self.view.shards.iter().map(ShardItem::of).collect();
        let cluster_status = if self.in_service() { "InService" } else { "OutOfService" };
        // Plain texts serialise without fail; an empty object is the answer that promises nothing.
        serde_json::to_string(&Details { nodes, shards, cluster_status }).unwrap_or_else(|_| "{}".into())
    }
}

/// The member that owns the shard's slots and answers as their primary.
fn primary<'v, 'a>(view: &'v View<'a>, shard: &Shard<'a>) -> Option<&'v Node<'a>> {
    let node = view.by_id(&shard.owner()?.id)?;
    (matches!(node.member.standing, Standing::Primary(_)) && node.says.is_some()).then_some(node)
}

fn owned(view: &View<'_>) -> Vec<vko_sdk::common::SlotRange> {
    view.observed.agreed_view.iter().filter(|p| p.replica_of.is_empty()).flat_map(|p| p.slots.iter().copied()).collect()
}

/// What keeps a member from being as it should be. A server that says the cluster is fine is not believed before all others have
/// a link to it: it says so for a while after each start.
fn wrong(view: &View<'_>, primary: Option<&Node<'_>>, node: &Node<'_>) -> Option<String> {
    let member = &node.member;
    let waiting = member.pod.map_or("", |p| p.waiting.as_str());
    let text = match member.standing {
        Standing::Absent => "no pod",
        _ if member.terminating() => "terminating",
        _ if !waiting.is_empty() => waiting,
        Standing::Dead => "its container ended or its node is gone",
        Standing::Starting => "starting",
        Standing::Loading { .. } => "loading",
        Standing::Refusing(reason) => reason,
        Standing::Silent(_) => "no answer",
        Standing::Primary(_) if refuses_writes(member).is_some() => return refuses_writes(member),
        Standing::Primary(_) | Standing::Replica(..) => return unsettled(view, primary, node).map(str::to_owned),
    };
    Some(text.to_owned())
}

fn unsettled(view: &View<'_>, primary: Option<&Node<'_>>, node: &Node<'_>) -> Option<&'static str> {
    let (Some(says), Some(peer)) = (node.says, view.peer(node)) else { return Some("not known to the others yet") };
    let Some(primary) = primary else { return Some("its shard has no primary") };
    let is_primary = primary.id == node.id;
    let beliefs = says.differs.iter().any(|b| {
        !b.known
            || !b.linked
            || b.failed
            || b.suspected
            || view.peers.get(b.id.as_str()).is_none_or(|p| p.slots != b.slots || p.replica_of != b.replica_of)
    });
    Some(match () {
        () if peer.failed || peer.suspected_by > 0 => "others don't hear it",
        () if peer.linked_by < view.answering => "not linked with all others yet",
        () if beliefs || !crate::view::complete(says) => "it sees the cluster otherwise than the others",
        () if !says.state_ok => "it says that the cluster is down",
        () if !says.importing.is_empty() || !says.migrating.is_empty() => "it has open slots",
        () if !is_primary && !synced(&primary.member, &node.member) => "not synced",
        () if !node.member.ready() => "its pod isn't ready",
        () => return None,
    })
}

/// The first of many texts.
fn some(texts: &[String]) -> String {
    let more = texts.len().saturating_sub(NAMED_MAX);
    let first = texts.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    nodes: Vec<Item<'a>>,
    shards: Vec<ShardItem>,
    cluster_status: &'static str,
}

/// An item of `status.nodes`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    role: &'static str,
    ip: &'a str,
    port: &'static str,
    pod_name: &'a str,
    stateful_set: &'a str,
    node_name: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    slots: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    master_ref: &'a str,
}

impl<'a> Item<'a> {
    fn of(view: &'a View<'_>, node: &'a Node<'_>) -> Self {
        let (role, master_ref) = match node.member.standing {
            Standing::Primary(_) => ("master", ""),
            Standing::Replica(..) => ("replica", view.by_id(view.replicates(node)).map_or("", |n| n.member.name.as_str())),
            _ => ("none", ""),
        };
        let pod = node.member.pod;
        Self {
            id: node.id.unwrap_or_default(),
            role,
            ip: pod.and_then(|p| p.addresses.first()).map_or("", String::as_str),
            port: "6379",
            pod_name: &node.member.name,
            stateful_set: pod.map_or("", |p| p.workload.as_str()),
            node_name: pod.map_or("", |p| p.node.as_str()),
            slots: slots::text(view.claims(node)),
            master_ref,
        }
    }
}

/// An item of `status.shards`.
#[derive(Serialize)]
struct ShardItem {
    index: u32,
    slots: Vec<Slots>,
}

#[derive(Serialize)]
struct Slots {
    slots: String,
    status: &'static str,
}

impl ShardItem {
    fn of(shard: &Shard<'_>) -> Self {
        let owned: Vec<_> = shard.owners.iter().flat_map(|p| p.slots.iter().copied()).collect();
        let (ranges, status) =
            if owned.is_empty() { (shard.planned.clone(), "SlotUnassigned") } else { (slots::normal(&owned), "SlotAssigned") };
        Self { index: shard.index, slots: vec![Slots { slots: slots::text(&ranges), status }] }
    }
}
