//! What people see: phase, conditions, nodes. Derived from the observation at each look, never remembered.

use std::fmt::Debug;

use serde::Serialize;
use vko_sdk::observation::{DataOrigin, DiskFile, Upstream};
use vko_sdk::planning::{Condition, Desired, Phase, Status, Truth};

use crate::decision::{BY_ITSELF, Block, Cause, Decision, names};
use crate::fence::synced;
use crate::primary::{Writer, writer};
use crate::promotion::nothing_known_lost;
use crate::roll;
use crate::view::{Member, Standing, View};

/// Texts in a condition.
const TEXTS_MAX: usize = 8;

/// What a policy that is built on this one adds to the data set's plan.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// What should exist beside the data set.
    pub desired: Vec<Desired>,
    /// Nodes to show behind those of the data set.
    pub nodes: Vec<Node>,
    /// More of `status.details`, by key.
    pub details: serde_json::Map<String, serde_json::Value>,
    /// What keeps the instance from being ready though its data set is; nothing if nothing does.
    pub shortfall: Option<Shortfall>,
    /// What people should know though all is as declared; empty if nothing.
    pub remark: String,
}

/// Something that is missing: the reason and message of the condition Ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// CamelCase.
    pub reason: String,
    /// For a person.
    pub message: String,
}

/// What the status is made of.
pub struct Picture<'v, 'a, C = Cause> {
    view: &'v View<'a>,
    primary: Option<&'v Member<'a>>,
    decision: &'v Decision<C>,
    beside: &'v Beside,
    /// Members that people want and that aren't synced or ready.
    missing: Vec<&'v Member<'a>>,
    /// Members beyond the declared ones whose pods are still there.
    leaving: Vec<&'v Member<'a>>,
    /// Synced copies that stay; of those that are to go, only the primary's counts: it goes last.
    copies: usize,
}

impl<'v, 'a, C: Debug> Picture<'v, 'a, C> {
    /// Looks at what is there.
    pub fn new(view: &'v View<'a>, primary: Option<&'v Member<'a>>, decision: &'v Decision<C>, beside: &'v Beside) -> Self {
        let in_sync = |m: &Member<'_>| primary.is_some_and(|p| p.ordinal == m.ordinal || synced(p, m));
        let wanted = view.members.iter().filter(|m| m.ordinal < view.spec.replicas);
        let missing = wanted.filter(|m| !(in_sync(m) && m.ready() && !m.terminating())).collect();
        let stays = |m: &Member<'_>| m.ordinal < view.spec.replicas || primary.is_some_and(|p| p.ordinal == m.ordinal);
        let copies = view.members.iter().filter(|m| stays(m) && in_sync(m)).count();
        let leaving = view.members.iter().filter(|m| m.ordinal >= view.spec.replicas && m.pod.is_some()).collect();
        Self { view, primary, decision, beside, missing, leaving, copies }
    }

    /// Whether all is as declared.
    pub fn ready(&self) -> bool {
        let serves = self.primary.is_some_and(|primary| refuses_writes(primary).is_none());
        let alone = self.view.primaries().len() == 1;
        let formed = self.view.observed.ledger.formed.is_some();
        let members = self.view.current == self.view.spec.replicas && self.missing.is_empty() && !roll::under_way(self.view);
        let whole = self.decision.data_lost.is_none() && self.beside.shortfall.is_none();
        serves && alone && formed && members && whole
    }

    /// The status.
    pub fn status(&self) -> Status {
        let ready = self.ready_condition();
        let message = ready.message.clone();
        let mut conditions = vec![ready, self.degraded(), self.redundant(), self.progressing(), stalled(self.decision)];
        let lost = self.decision.data_lost.clone().or_else(|| self.restarted_empty());
        conditions.extend(lost.map(|text| condition("DataLost", Truth::Yes, "DataLost", text)));
        Status { phase: self.phase(), message, conditions, details: self.details() }
    }

    fn ready_condition(&self) -> Condition {
        let of = |state, reason: &str, message: String| condition("Ready", state, reason, message);
        let waits = self.decision.blocks.first();
        if self.view.observed.ledger.formed.is_none() {
            let text = "the ledger was lost: it is written anew when all members answer and agree".to_owned();
            return of(Truth::Unknown, &Cause::LedgerLost.reason(), text);
        }
        let Some(primary) = self.primary else {
            return match waits {
                Some(block) if self.may_serve() => of(Truth::Unknown, &format!("{:?}", block.cause), block.message.clone()),
                Some(block) => of(Truth::No, &format!("{:?}", block.cause), block.message.clone()),
                None if self.view.observed.ledger.formed == Some(false) => {
                    of(Truth::No, "Creating", "the first primary isn't named yet: waiting for a member that answers".into())
                }
                None => of(Truth::No, "NoPrimary", "no member answers as the primary".into()),
            };
        };
        if self.ready() {
            let remark = if self.beside.remark.is_empty() { String::new() } else { format!("; {}", self.beside.remark) };
            let text = format!("{} is the primary, {} member(s) in sync{remark}", primary.name, self.copies);
            return of(Truth::Yes, "AllMembersSynced", text);
        }
        if let Some(lost) = &self.decision.data_lost {
            return of(Truth::No, "DataLost", lost.clone());
        }
        if let Some(why) = refuses_writes(primary) {
            return of(Truth::No, "WritesRefused", format!("{} {why}", primary.name));
        }
        let whole = self.missing.is_empty() && self.view.current == self.view.spec.replicas;
        if let Some(shortfall) = self.beside.shortfall.as_ref().filter(|_| whole) {
            return of(Truth::No, &shortfall.reason, shortfall.message.clone());
        }
        match waits {
            Some(block) if self.missing.is_empty() => of(Truth::No, &format!("{:?}", block.cause), block.message.clone()),
            _ if self.missing.is_empty() && self.view.current == self.view.spec.replicas => {
                of(Truth::No, "Rolling", self.roll_text())
            }
            _ if self.missing.is_empty() => of(Truth::No, "ChangingMembers", self.members_text()),
            _ => of(Truth::No, "MembersNotSynced", format!("not synced or not ready: {}", self.missing_text())),
        }
    }

    /// Whether somebody may be serving, though nobody answers as the primary.
    fn may_serve(&self) -> bool {
        self.view.failover_under_way() || self.view.members.iter().any(|m| writer(self.view, m) != Writer::No)
    }

    fn members_text(&self) -> String {
        format!("{} has {} member(s), {} are declared", self.view.workload, self.view.current, self.view.spec.replicas)
    }

    fn roll_text(&self) -> String {
        let older: Vec<_> = self.view.members.iter().filter(|m| roll::outdated(self.view, m)).collect();
        if older.is_empty() { "the newest spec isn't in force yet".into() } else { format!("to be replaced: {}", names(&older)) }
    }

    fn missing_text(&self) -> String {
        let each = self.missing.iter().map(|m| format!("{} ({})", m.name, why_missing(m)));
        each.collect::<Vec<_>>().join(", ")
    }

    fn degraded(&self) -> Condition {
        match self.primary {
            None => condition("Degraded", Truth::Unknown, "NoPrimary", "nobody answers as the primary".into()),
            Some(_) if self.missing.is_empty() => condition("Degraded", Truth::No, "AllMembersSynced", String::new()),
            Some(_) => condition("Degraded", Truth::Yes, "MembersNotSynced", self.missing_text()),
        }
    }

    fn redundant(&self) -> Condition {
        let of = |state, reason, message| condition("Redundant", state, reason, message);
        match (self.primary, self.copies) {
            (None, _) => of(Truth::Unknown, "NoPrimary", "nobody answers as the primary".into()),
            (Some(_), 2..) => of(Truth::Yes, "SyncedReplica", format!("{} synced copies", self.copies)),
            (Some(_), _) if self.view.spec.replicas == 1 => of(Truth::No, "SingleMember", "one member is declared".into()),
            (Some(_), _) => of(Truth::No, "NoSyncedReplica", "the primary holds the only synced copy".into()),
        }
    }

    fn progressing(&self) -> Condition {
        let changing = |text| condition("Progressing", Truth::Yes, "ChangingMembers", text);
        under_way(self.decision).unwrap_or_else(|| match &self.leaving[..] {
            _ if self.view.current != self.view.spec.replicas => changing(self.members_text()),
            [] if roll::under_way(self.view) => condition("Progressing", Truth::Yes, "Rolling", self.roll_text()),
            [] => condition("Progressing", Truth::No, "NothingToDo", String::new()),
            leaving => {
                let names = first_of(leaving.iter().map(|m| m.name.clone()).collect(), ", ");
                changing(format!("beyond the {} declared member(s), and still there: {names}", self.view.spec.replicas))
            }
        })
    }

    fn phase(&self) -> Phase {
        let instance = &self.view.observed.instance;
        if instance.paused {
            return Phase::Paused;
        }
        if self.ready() {
            return Phase::Ready;
        }
        let stuck = self.decision.blocks.iter().any(|b| b.remedy != BY_ITSELF);
        let never = self.view.observed.ledger.formed == Some(false);
        match (self.primary, stuck) {
            (None, true) if !self.may_serve() => Phase::Failed,
            _ if never => Phase::Initializing,
            _ => Phase::Rebalancing,
        }
    }

    /// A lone primary that started with nothing, though this instance had data.
    fn restarted_empty(&self) -> Option<String> {
        let primary = self.primary?;
        let facts = primary.facts_now().filter(|f| f.keys == 0 && f.origin == DataOrigin::Empty)?;
        let lineages = &self.view.observed.ledger.lineages;
        let known = lineages.iter().any(|l| l.replid == facts.replid || l.replid == facts.second_replid);
        let had = lineages.iter().any(|l| l.best_offset > 0) && !nothing_known_lost(self.view);
        let formed = self.view.observed.ledger.formed == Some(true);
        (formed && had && !known).then(|| format!("{} started with an empty data set: what it held before is gone", primary.name))
    }

    fn details(&self) -> String {
        let own = self.view.members.iter().filter(|m| m.pod.is_some()).map(|m| Node::of(self.view, m));
        let nodes = own.chain(self.beside.nodes.iter().cloned()).collect();
        // Plain texts serialise without fail; an empty object is the answer that promises nothing.
        serde_json::to_string(&Details { nodes, more: &self.beside.details }).unwrap_or_else(|_| "{}".into())
    }
}

/// Why a server refuses all writes, if its disk is the cause.
pub fn refuses_writes(member: &Member<'_>) -> Option<String> {
    let what = match member.facts_now()?.cannot_write? {
        DiskFile::AppendOnlyFile => "append-only file",
        DiskFile::Snapshot => "snapshot",
    };
    Some(format!("can't write its {what}, and refuses writes until it can: is its volume full?"))
}

/// What keeps a member from being as it should be.
pub fn why_missing(member: &Member<'_>) -> String {
    let waiting = member.pod.map_or("", |p| p.waiting.as_str());
    match member.standing {
        Standing::Absent => "no pod".into(),
        _ if member.terminating() => "terminating".into(),
        _ if !waiting.is_empty() => waiting.into(),
        Standing::Dead => "its container ended or its node is gone".into(),
        Standing::Starting => "starting".into(),
        Standing::Loading { .. } => "loading".into(),
        Standing::Refusing(reason) => format!("answers {reason}"),
        Standing::Silent(_) => "no answer".into(),
        Standing::Primary(_) if !member.ready() => "its pod isn't ready".into(),
        Standing::Primary(_) => "answers as a primary".into(),
        Standing::Replica(_, link) => match (&link.primary, link.syncing, link.up) {
            (Upstream::Nobody, ..) => "follows nobody".into(),
            (_, true, _) => "syncing".into(),
            (_, _, false) => "its link is down".into(),
            _ if !member.ready() => "its pod isn't ready".into(),
            _ => "catching up".into(),
        },
    }
}

/// The condition Progressing while steps or what ends by itself are under way.
pub fn under_way<C: Debug>(decision: &Decision<C>) -> Option<Condition> {
    let reasons = decision.tracks.iter().flat_map(|t| t.steps.first()).map(|s| s.reason.as_str());
    let text = first_of(reasons.map(str::to_owned).collect(), "; ");
    if !text.is_empty() {
        return Some(condition("Progressing", Truth::Yes, "StepsUnderWay", text));
    }
    let block = decision.blocks.iter().find(|b| b.remedy == BY_ITSELF)?;
    Some(condition("Progressing", Truth::Yes, &format!("{:?}", block.cause), block.message.clone()))
}

/// The condition Stalled: what waits for more than time.
pub fn stalled<C: Debug>(decision: &Decision<C>) -> Condition {
    let stuck: Vec<&Block<C>> = decision.blocks.iter().filter(|b| b.remedy != BY_ITSELF).collect();
    let Some(first) = stuck.first() else { return condition("Stalled", Truth::No, "NothingWaits", String::new()) };
    let each = stuck.iter().map(|b| {
        let consent = if b.token.is_empty() { String::new() } else { format!(" (consent token: {})", b.token) };
        format!("{}; {}{consent}", b.message, b.remedy)
    });
    condition("Stalled", Truth::Yes, &format!("{:?}", first.cause), first_of(each.collect(), " | "))
}

/// The first of many texts: a condition is for people, and an object has a limit.
fn first_of(mut texts: Vec<String>, between: &str) -> String {
    let more = texts.len().saturating_sub(TEXTS_MAX);
    texts.truncate(TEXTS_MAX);
    let text = texts.join(between);
    if more > 0 { format!("{text}{between}and {more} more") } else { text }
}

/// A condition.
pub fn condition(kind: &str, state: Truth, reason: &str, message: String) -> Condition {
    Condition { kind: kind.into(), state, reason: reason.into(), message }
}

#[derive(Serialize)]
struct Details<'v> {
    nodes: Vec<Node>,
    #[serde(flatten)]
    more: &'v serde_json::Map<String, serde_json::Value>,
}

/// An item of `status.nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// `master`, `replica`, `none`; `Sentinel`.
    pub role: &'static str,
    /// First address of its pod; empty before it has one.
    pub ip: String,
    /// Of its clients.
    pub port: &'static str,
    /// Its pod.
    pub pod_name: String,
    /// Its workload.
    pub stateful_set: String,
    /// Where its pod runs; empty while it isn't scheduled.
    pub node_name: String,
    /// Pod of the primary that it follows, if it does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub master_ref: String,
}

impl Node {
    fn of(view: &View<'_>, member: &Member<'_>) -> Self {
        let (role, master_ref) = match &member.standing {
            Standing::Primary(_) => ("master", String::new()),
            Standing::Replica(_, link) => match &link.primary {
                Upstream::Nobody => ("none", String::new()),
                Upstream::Pod(uid) => ("replica", view.by_pod(uid).map_or_else(String::new, |m| m.name.clone())),
                Upstream::Other(_) => ("replica", String::new()),
            },
            _ => ("none", String::new()),
        };
        let pod = member.pod;
        Self {
            role,
            ip: pod.and_then(|p| p.addresses.first()).cloned().unwrap_or_default(),
            port: "6379",
            pod_name: member.name.clone(),
            stateful_set: view.workload.clone(),
            node_name: pod.map(|p| p.node.clone()).unwrap_or_default(),
            master_ref,
        }
    }
}
