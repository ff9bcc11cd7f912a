//! The scene: a whole instance under observation.

use vko_sdk::Observed;
use vko_sdk::common::{Address, StartMode};
use vko_sdk::observation::{
    AttachedReplica, Claim, ContainerState, DataOrigin, Failure, FenceRecord, LastPrimary, LedgerMember, Lineage, NodeState,
    Object, Pod, Reach, ReplicaLink, Role, Server, ServerFacts, Upstream,
};

use super::blank::{environment, instance, ledger};
use super::{NOW, mk_pod, mk_primary, mk_replica, mk_server};
use crate::spec;
use crate::view::View;

/// An instance under observation. Each change returns the scene, so that faults can be strung together.
#[derive(Debug, Clone)]
pub struct Scene {
    /// What the policy would see.
    pub observed: Observed,
    name: String,
    consenting: bool,
}

impl Scene {
    /// An instance that was never complete: all pods answer, empty, following nobody.
    pub fn new(name: &str, members: u32) -> Self {
        let pods: Vec<Pod> = (0..members).map(|i| Pod { ready: false, ..mk_pod(name, i) }).collect();
        let servers = pods.iter().map(|p| {
            let facts = mk_replica(&format!("own-{}", p.ordinal), 1, Upstream::Nobody);
            mk_server(p, ServerFacts { keys: 0, origin: DataOrigin::Empty, run_id: format!("run-{name}-{}", p.ordinal), ..facts })
        });
        let observed = Observed {
            now: NOW,
            instance: instance(name, members),
            environment: environment(),
            ledger: ledger(),
            objects: vec![object("StatefulSet", &format!("rfr-{name}"), "set", 10_000, &format!(r#"{{"replicas":{members}}}"#))],
            claims: Vec::new(),
            servers: servers.collect(),
            pods,
            agreed_view: Vec::new(),
            sentinels: Vec::new(),
            users: Vec::new(),
            recent: Vec::new(),
            jobs: Vec::new(),
            extensions: vec![vko_sdk::facts::mk_template_of_spec(&format!("rfr-{name}"), true)],
        };
        Self { observed, name: name.into(), consenting: false }
    }

    /// An instance as declared: member 0 is the primary, the others are synced, the fence is set.
    pub fn healthy(name: &str, members: u32) -> Self {
        let mut scene = Self::new(name, members);
        scene.observed.ledger.formed = Some(true);
        scene.observed.ledger.members = scene.observed.pods.iter().map(ledger_member).collect();
        scene.observed.ledger.lineages = vec![Lineage { replid: "lineage-a".into(), best_offset: 900, seen: NOW - 60_000 }];
        scene.serve_from(0);
        if members > 1 {
            scene.fence(0, members / 2);
        }
        scene
    }

    /// Makes one the primary, the others its synced replicas; the ledger knows.
    pub fn serve_from(&mut self, primary: usize) -> &mut Self {
        let uid = self.observed.pods[primary].uid.clone();
        // Pods of the data set come first; a scene of another policy may have more.
        let members = self.observed.servers.len();
        for i in 0..members {
            let mut facts = mk_replica("lineage-a", 1_000, Upstream::Pod(uid.clone()));
            if i == primary {
                facts = mk_primary("lineage-a", 1_000);
                facts.replicas = self.observed.pods[..members].iter().filter(|p| p.uid != uid).map(attached).collect();
            }
            let pod = &mut self.observed.pods[i];
            pod.ready = true;
            pod.role_label = if i == primary { "master".into() } else { "replica".into() };
            facts.run_id = format!("run-{}-{}", self.name, pod.ordinal);
            self.observed.servers[i] = mk_server(&self.observed.pods[i], facts);
        }
        let last = ledger_member(&self.observed.pods[primary]);
        self.observed.ledger.last_primary = LastPrimary::Members(vec![last]);
        self
    }

    /// As the policy reads it.
    pub fn view(&self) -> View<'_> {
        let spec =
            spec::read(&self.observed.instance.spec).unwrap_or(spec::Spec { replicas: 1, storage: None, version: String::new() });
        View::new(&self.observed, spec)
    }

    /// Whether a key was ever seen, as the ledger has it.
    pub fn held(&mut self, held: Option<bool>) -> &mut Self {
        self.observed.extensions.retain(|pair| pair.key != "ledger.held");
        self.observed.extensions.extend(vko_sdk::facts::mk_held(held));
        self
    }

    /// Changes what a server says.
    pub fn facts(&mut self, i: usize, change: impl FnOnce(&mut ServerFacts)) -> &mut Self {
        if let Some(facts) = self.server(i).and_then(|s| s.facts.as_mut()) {
            change(facts);
        }
        self
    }

    /// Changes a pod.
    pub fn pod(&mut self, i: usize, change: impl FnOnce(&mut Pod)) -> &mut Self {
        if let Some(pod) = self.observed.pods.iter_mut().find(|p| p.ordinal as usize == i) {
            change(pod);
        }
        self
    }

    fn server(&mut self, i: usize) -> Option<&mut Server> {
        let uid = self.uid(i);
        self.observed.servers.iter_mut().find(|s| s.pod == uid)
    }

    fn uid(&self, i: usize) -> String {
        self.observed
            .pods
            .iter()
            .find(|p| p.ordinal as usize == i)
            .map_or_else(|| format!("uid-{}-{i}", self.name), |p| p.uid.clone())
    }

    fn link(&mut self, i: usize, change: impl Fn(&mut ReplicaLink)) -> &mut Self {
        self.facts(i, |f| {
            if let Role::Replica(link) = &mut f.role {
                change(link);
            }
        })
    }

    fn links_to(&mut self, i: usize, change: impl Fn(&mut ReplicaLink)) -> &mut Self {
        let upstream = Upstream::Pod(self.uid(i));
        for facts in self.observed.servers.iter_mut().filter_map(|s| s.facts.as_mut()) {
            if let Role::Replica(link) = &mut facts.role
                && link.primary == upstream
            {
                change(link);
            }
        }
        self
    }

    fn reach(&mut self, i: usize, reach: Reach, age: u64) -> &mut Self {
        if let Some(server) = self.server(i) {
            server.reach = reach;
            server.age = age;
        }
        self
    }

    /// Its container ends.
    pub fn kill(&mut self, i: usize) -> &mut Self {
        self.links_to(i, unlink).lag_none(i).reach(i, Reach::Silent(1_000), 1_000);
        self.pod(i, |p| {
            p.container = ContainerState::Terminated;
            p.ready = false;
        })
    }

    /// Its node is gone.
    pub fn lose_node(&mut self, i: usize) -> &mut Self {
        self.links_to(i, unlink).lag_none(i).reach(i, Reach::Silent(30_000), 30_000).pod(i, |p| p.node_state = NodeState::Gone)
    }

    /// Its pod is gone; those who followed it follow an address.
    pub fn remove_pod(&mut self, i: usize) -> &mut Self {
        let uid = self.uid(i);
        self.links_to(i, |link| {
            unlink(link);
            link.primary = Upstream::Other(Address { host: "10.0.0.99".into(), port: 6379 });
        });
        self.lag_none(i);
        self.observed.servers.retain(|s| s.pod != uid);
        self.observed.pods.retain(|p| p.uid != uid);
        self
    }

    /// Another pod takes its place; its server isn't heard yet.
    pub fn replace_pod(&mut self, i: usize) -> &mut Self {
        self.remove_pod(i);
        let uid = format!("uid-{}-{i}-new", self.name);
        let pod = Pod { uid, ready: false, ..mk_pod(&self.name, u32::try_from(i).unwrap_or(0)) };
        self.observed.pods.push(pod);
        self.observed.pods.sort_by_key(|p| p.ordinal);
        self
    }

    /// Its server answers for the first time: empty, following nobody.
    pub fn answer_empty(&mut self, i: usize) -> &mut Self {
        if let Some(pod) = self.observed.pods.iter().find(|p| p.ordinal as usize == i).cloned() {
            let facts = mk_replica(&format!("own-{i}"), 1, Upstream::Nobody);
            self.observed.servers.push(mk_server(&pod, ServerFacts { keys: 0, origin: DataOrigin::Empty, ..facts }));
        }
        self
    }

    /// It gives no answer; those who followed it hear nothing any more.
    pub fn silence(&mut self, i: usize) -> &mut Self {
        self.links_to(i, |link| link.last_io = Some(20_000)).reach(i, Reach::Silent(20_000), 20_000)
    }

    /// That replica hears its primary.
    pub fn still_hears(&mut self, i: usize) -> &mut Self {
        self.link(i, |link| link.last_io = Some(500))
    }

    /// That replica hears a primary at an address that no pod has.
    pub fn hears_stranger(&mut self, i: usize) -> &mut Self {
        self.link(i, |link| {
            link.primary = Upstream::Other(Address { host: "10.0.0.99".into(), port: 6379 });
            (link.up, link.last_io) = (true, Some(500));
        })
    }

    /// Nothing was ever heard of it.
    pub fn unhear(&mut self, i: usize) -> &mut Self {
        if let Some(server) = self.server(i) {
            server.facts = None;
        }
        self
    }

    /// Its pod isn't ready.
    pub fn unready(&mut self, i: usize) -> &mut Self {
        self.pod(i, |p| p.ready = false)
    }

    /// Its container was started again: it follows nobody, with the data that the origin gives it
    /// (`snapshot`, `append-only-file`, `empty`).
    pub fn restart(&mut self, i: usize, origin: &str) -> &mut Self {
        let name = self.name.clone();
        self.links_to(i, unlink).lag_none(i).reach(i, Reach::Answered, 500);
        self.pod(i, |p| {
            p.container = ContainerState::Running;
            p.ready = false;
            p.restarts += 1;
        });
        self.facts(i, |f| {
            f.run_id = format!("run-{name}-{i}-again");
            f.uptime = 5_000;
            f.role = Role::Replica(ReplicaLink {
                primary: Upstream::Nobody,
                up: false,
                syncing: false,
                last_io: None,
                down_for: None,
                priority: 100,
            });
            f.replicas.clear();
            f.fence.min_replicas = 0;
            f.origin = DataOrigin::Snapshot;
            if origin != "snapshot" {
                (f.replid, f.second_replid, f.offset) = (format!("fresh-{i}"), String::new(), 0);
                f.origin = DataOrigin::AppendOnlyFile;
            }
            if origin == "empty" {
                (f.keys, f.origin) = (0, DataOrigin::Empty);
            }
        })
    }

    /// It is told to follow another one.
    pub fn demote(&mut self, i: usize, to: usize) -> &mut Self {
        let primary = Upstream::Pod(self.uid(to));
        self.facts(i, |f| {
            f.role =
                Role::Replica(ReplicaLink { primary, up: true, syncing: false, last_io: Some(0), down_for: None, priority: 100 })
        })
    }

    /// It follows that one, without a link yet.
    pub fn follow(&mut self, i: usize, to: usize) -> &mut Self {
        self.demote(i, to).unlink(i)
    }

    /// Its link is up, as far as its last word goes.
    pub fn link_up(&mut self, i: usize) -> &mut Self {
        self.link(i, |link| link.up = true)
    }

    /// Its link is down.
    pub fn unlink(&mut self, i: usize) -> &mut Self {
        self.link(i, unlink)
    }

    /// Its link has been down for that long (ms), and the primary has written since.
    pub fn link_down(&mut self, i: usize, ms: u64) -> &mut Self {
        self.unlink(i).facts(i, |f| {
            f.offset = 950;
            if let Role::Replica(link) = &mut f.role {
                link.down_for = Some(ms);
            }
        })
    }

    /// Its replicas were detached so long ago (ms) by the clock of the operator that did it.
    pub fn written_down(&mut self, i: usize, ms: u64) -> &mut Self {
        self.of_fence(i, |f| f.detached_at_written = NOW.saturating_sub(ms))
    }

    /// It syncs.
    pub fn set_syncing(&mut self, i: usize) -> &mut Self {
        self.link(i, |link| (link.up, link.syncing) = (false, true)).attached(i, |a| a.online = false)
    }

    /// Its primary hears it that late.
    pub fn lag(&mut self, i: usize, ms: u64) -> &mut Self {
        self.attached(i, |a| a.lag = ms)
    }

    /// Its primary doesn't hear it at all.
    pub fn lag_none(&mut self, i: usize) -> &mut Self {
        let uid = Upstream::Pod(self.uid(i));
        let servers = self.observed.servers.iter_mut().filter_map(|s| s.facts.as_mut());
        servers.for_each(|f| f.replicas.retain(|r| r.pod != uid));
        self
    }

    /// A replica that is no member is attached to it.
    pub fn stranger(&mut self, i: usize) -> &mut Self {
        let pod = Upstream::Other(Address { host: "10.9.9.9".into(), port: 6379 });
        self.facts(i, |f| f.replicas.push(AttachedReplica { pod, online: true, offset: 1_000, lag: 500 }))
    }

    /// The ledger knows no members.
    pub fn forget_members(&mut self) -> &mut Self {
        self.observed.ledger.members.clear();
        self
    }

    fn attached(&mut self, i: usize, change: impl Fn(&mut AttachedReplica)) -> &mut Self {
        let uid = Upstream::Pod(self.uid(i));
        let servers = self.observed.servers.iter_mut().filter_map(|s| s.facts.as_mut());
        servers.flat_map(|f| f.replicas.iter_mut()).filter(|r| r.pod == uid).for_each(change);
        self
    }

    /// It was detached: it follows nobody, in the same run.
    pub fn detach(&mut self, i: usize) -> &mut Self {
        self.link(i, |link| (link.primary, link.up, link.last_io) = (Upstream::Nobody, false, None)).lag_none(i).unready(i)
    }

    /// It answers as a primary and carries its lineage on under a new id; the ledger knows.
    pub fn promote(&mut self, i: usize) -> &mut Self {
        let last = self.observed.pods.iter().find(|p| p.ordinal as usize == i).map(ledger_member);
        self.observed.ledger.last_primary = LastPrimary::Members(last.into_iter().collect());
        self.observed.ledger.lineages.push(Lineage { replid: "lineage-b".into(), best_offset: 900, seen: NOW - 1_000 });
        self.rise(i)
    }

    /// It answers as a primary, and nobody recorded it.
    pub fn rise(&mut self, i: usize) -> &mut Self {
        self.facts(i, |f| {
            f.role = Role::Primary;
            (f.second_replid, f.second_offset) = (f.replid.clone(), f.offset.saturating_add(1));
            f.replid = "lineage-b".into();
        })
    }

    /// Its data carries on the known lineage under an id that nobody recorded.
    pub fn move_on(&mut self, i: usize) -> &mut Self {
        self.facts(i, |f| (f.second_replid, f.replid) = (f.replid.clone(), "unrecorded".into()))
    }

    /// It answers with an error.
    pub fn refuse(&mut self, i: usize, reason: &str) -> &mut Self {
        self.reach(i, Reach::Refused(Failure { lasting: 1_000, reason: reason.into() }), 1_000)
    }

    /// It loads its data; `unnamed`: it says that it follows nobody.
    pub fn load(&mut self, i: usize, unnamed: bool) -> &mut Self {
        if unnamed {
            self.restart(i, "snapshot");
        }
        self.reach(i, Reach::Loading(Some(10)), if unnamed { 500 } else { 4_000 })
    }

    /// Its container waits to start.
    pub fn wait_start(&mut self, i: usize) -> &mut Self {
        self.lag_none(i).reach(i, Reach::Silent(1_000), 1_000);
        self.pod(i, |p| (p.container, p.ready) = (ContainerState::Starting, false))
    }

    /// Its pod is about to end.
    pub fn terminate(&mut self, i: usize) -> &mut Self {
        self.pod(i, |p| p.terminating_for = 2_000)
    }

    /// Its facts are that old (ms).
    pub fn age(&mut self, i: usize, ms: u64) -> &mut Self {
        self.reach(i, Reach::Answered, ms)
    }

    /// Its fence, on the server and in the ledger.
    pub fn fence(&mut self, i: usize, min: u32) -> &mut Self {
        let run = format!("run-{}-{i}", self.name);
        self.facts(i, |f| f.fence.min_replicas = min).forget_fences().fence_run(i, &run, min)
    }

    /// A fence in the ledger for some run.
    pub fn fence_run(&mut self, i: usize, run: &str, min: u32) -> &mut Self {
        let pod = self.uid(i);
        self.observed.ledger.fences.retain(|f| f.pod != pod);
        let (run_id, set_at) = (run.to_owned(), NOW - 100_000);
        let (detached_at, detached_at_written) = (0, 0);
        let fence = FenceRecord { pod, run_id, min_replicas: min, max_lag: 5_000, set_at, detached_at, detached_at_written };
        self.observed.ledger.fences.push(fence);
        self
    }

    fn of_fence(&mut self, i: usize, change: impl Fn(&mut FenceRecord)) -> &mut Self {
        let pod = self.uid(i);
        self.observed.ledger.fences.iter_mut().filter(|f| f.pod == pod).for_each(change);
        self
    }

    /// No fence, neither on the server nor in the ledger.
    pub fn unfence(&mut self, i: usize) -> &mut Self {
        self.facts(i, |f| f.fence.min_replicas = 0).forget_fences()
    }

    /// The ledger knows no fence.
    pub fn forget_fences(&mut self) -> &mut Self {
        self.observed.ledger.fences.clear();
        self
    }

    /// The replicas of that one were detached so long ago (ms).
    pub fn detached(&mut self, i: usize, ago: u64) -> &mut Self {
        self.of_fence(i, |f| (f.detached_at, f.detached_at_written) = (NOW - ago, NOW - ago))
    }

    /// The ledger names no primary.
    pub fn forget_primary(&mut self) -> &mut Self {
        self.observed.ledger.last_primary = LastPrimary::None;
        self
    }

    /// The ledger was lost.
    pub fn forget_all(&mut self) -> &mut Self {
        self.observed.ledger = ledger();
        self.observed.ledger.formed = None;
        self
    }

    /// The ledger knows an older lineage.
    pub fn older_lineage(&mut self, replid: &str) -> &mut Self {
        self.observed.ledger.lineages.push(Lineage { replid: replid.into(), best_offset: 500, seen: NOW - 600_000 });
        self
    }

    /// The best offset that the ledger knows of its lineages.
    pub fn best_offset(&mut self, offset: u64) -> &mut Self {
        self.observed.ledger.lineages.iter_mut().for_each(|l| l.best_offset = offset);
        self
    }

    /// A claim for each member.
    pub fn with_claims(&mut self) -> &mut Self {
        let claims: Vec<Claim> = self.observed.pods.iter().map(mk_claim).collect();
        self.observed.claims = claims;
        let members = self.observed.ledger.members.iter_mut();
        members.for_each(|m| m.claim = format!("claim-{}", m.ordinal));
        self.spec_storage(false)
    }

    /// Storage in the spec; `retain`: claims stay.
    pub fn spec_storage(&mut self, retain: bool) -> &mut Self {
        let spec::Spec { replicas: members, version, .. } = self.view().spec;
        self.observed.instance.spec =
            format!(r#"{{"replicas":{members},"version":"{version}","storage":{{"retainAfterDeleted":{retain}}}}}"#);
        self
    }

    /// The claims were there before the instance.
    pub fn old_claims(&mut self) -> &mut Self {
        self.observed.claims.iter_mut().for_each(|claim| claim.before_instance = true);
        self
    }

    /// Its volume is gone with its node.
    pub fn lose_volume(&mut self, i: usize) -> &mut Self {
        let claims = self.observed.claims.iter_mut();
        claims.filter(|c| c.ordinal as usize == i).for_each(|c| c.node_exists = Some(false));
        self
    }

    /// People want that many members.
    pub fn want(&mut self, members: u32) -> &mut Self {
        let spec::Spec { storage, version, .. } = self.view().spec;
        let storage = storage.map(|s| s.retain_after_deleted);
        self.observed.instance.spec = format!(r#"{{"replicas":{members},"version":"{version}"}}"#);
        if let Some(retain) = storage {
            self.spec_storage(retain);
        }
        self
    }

    /// The workload has that many members.
    pub fn shrink(&mut self, members: u32) -> &mut Self {
        let name = format!("rfr-{}", self.name);
        let sets = self.observed.objects.iter_mut().filter(|object| object.kind == "StatefulSet" && object.name == name);
        sets.for_each(|set| set.members = Some(members));
        self
    }

    /// The start mode that a pod has mounted.
    pub fn mounted(&mut self, i: usize, mode: StartMode) -> &mut Self {
        self.pod(i, |pod| pod.mounted_start = Some(mode))
    }

    /// It holds ten keys of that lineage (offset 0: an append-only file, which has none).
    pub fn fill(&mut self, i: usize, replid: &str, offset: u64) -> &mut Self {
        self.facts(i, |f| {
            (f.keys, f.replid, f.offset) = (10, replid.into(), offset);
            f.origin = if offset == 0 { DataOrigin::AppendOnlyFile } else { DataOrigin::Snapshot };
        })
    }

    /// A person consents to whatever is asked.
    pub fn consent_to_all(&mut self) -> &mut Self {
        self.consenting = true;
        self
    }

    /// Whether a person consents to whatever is asked.
    pub fn consents(&self) -> bool {
        self.consenting
    }

    /// An instance whose member answers as a primary by itself.
    pub fn alone(name: &str) -> Self {
        let mut scene = Self::healthy(name, 1);
        scene.observed.instance.spec = r#"{"replicas":1}"#.into();
        scene
    }
}

fn unlink(link: &mut ReplicaLink) {
    (link.up, link.last_io) = (false, None);
}

fn attached(pod: &Pod) -> AttachedReplica {
    AttachedReplica { pod: Upstream::Pod(pod.uid.clone()), online: true, offset: 1_000, lag: 0 }
}

fn ledger_member(pod: &Pod) -> LedgerMember {
    let (workload, ordinal, pod) = (pod.workload.clone(), pod.ordinal, pod.uid.clone());
    LedgerMember { workload, ordinal, pod, claim: String::new(), node_id: String::new() }
}

fn mk_claim(pod: &Pod) -> Claim {
    Claim {
        name: format!("valkey-data-{}", pod.name),
        uid: format!("claim-{}", pod.ordinal),
        workload: pod.workload.clone(),
        ordinal: pod.ordinal,
        phase: "Bound".into(),
        capacity: 1 << 30,
        resizing: false,
        node: String::new(),
        node_exists: None,
        before_instance: false,
    }
}

fn object(kind: &str, name: &str, uid: &str, age: u64, status: &str) -> Object {
    let api_version = if kind == "StatefulSet" { "apps/v1" } else { "v1" };
    Object {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        age,
        deleting: false,
        members: None,
        status: status.into(),
    }
}
