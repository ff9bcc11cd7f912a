//! A scene of the replica policy, watched by Sentinels: `rfs-x-0`.. with the ids `sid-0`.., at config epoch 5.

use vko_replica::testing::{NOW, Scene, describe_decision, mk_outcome, mk_pod};
use vko_replica::view::{Authority, View};
use vko_sdk::common::{Address, Architecture};
use vko_sdk::observation::{
    ContainerState, Failure, Lineage, Monitor, OutcomeKind, Pod, Reach, Role, Sentinel, SentinelPeer, SentinelReplica, Upstream,
};
use vko_sdk::plan::pair;

use crate::cause::Decision;
use crate::group::Group;
use crate::spec::{Settings, read, read_alone};

mod gallery;
mod random;
pub use gallery::gallery;
pub use random::random_watched;

const OPTIONS: [(&str, &str); 3] = [("down-after-milliseconds", "5000"), ("failover-timeout", "60000"), ("parallel-syncs", "1")];

/// A data set and its Sentinels. Each change returns it, so that faults can be strung together.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The data set; the Sentinels are in its observation.
    pub scene: Scene,
    sentinel: serde_json::Value,
}

impl Watched {
    /// As declared: member 0 leads, three Sentinels watch it and see all there is.
    pub fn healthy(name: &str, members: u32) -> Self {
        let mut scene = Scene::healthy(name, members);
        scene.unfence(0);
        Self::over(scene)
    }

    /// Never complete: the pods answer, the Sentinels know nothing.
    pub fn new(name: &str, members: u32) -> Self {
        let mut watched = Self::over(Scene::new(name, members));
        watched.blank(0).blank(1).blank(2);
        watched
    }

    /// Sentinels over a scene; they watch member 0.
    pub fn over(scene: Scene) -> Self {
        let config: serde_json::Map<_, _> = OPTIONS.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        let sentinel = serde_json::json!({"replicas": 3, "quorum": 2, "monitorConfig": config});
        let mut watched = Self { scene, sentinel };
        watched.scene.observed.instance.architecture = Architecture::Failover;
        let members = watched.scene.observed.pods.clone();
        for i in 0..3 {
            let pod = sentinel_pod(i);
            watched.scene.observed.sentinels.push(mk_sentinel(&pod, i, &members));
            watched.scene.observed.pods.push(pod);
        }
        watched.respec()
    }

    /// A Sentinel object that stands alone.
    pub fn alone(name: &str) -> Self {
        let mut watched = Self::healthy(name, 1);
        let observed = &mut watched.scene.observed;
        observed.instance.kind = "Sentinel".into();
        observed.instance.spec = r#"{"replicas":3}"#.into();
        observed.servers.clear();
        observed.pods.retain(|p| p.workload.starts_with("rfs-"));
        observed.sentinels.iter_mut().for_each(|s| s.monitors.clear());
        watched
    }

    /// The Sentinels aren't this instance's own.
    pub fn refer(&mut self) -> &mut Self {
        let address = |i: usize| Address { host: format!("10.2.0.{}", i + 1), port: 26_379 };
        let nodes: Vec<_> = (0..3).map(|i| serde_json::json!({"ip": address(i).host, "port": 26_379})).collect();
        self.sentinel["sentinelReference"] = serde_json::json!({"nodes": nodes});
        self.scene.observed.pods.retain(|p| !p.workload.starts_with("rfs-"));
        for (i, sentinel) in self.scene.observed.sentinels.iter_mut().enumerate() {
            sentinel.pod = Upstream::Other(address(i));
            sentinel.monitors.iter_mut().for_each(|m| m.name = "ns.x".into());
        }
        *self = self.clone().respec();
        self
    }

    /// Changes the data set.
    pub fn data(&mut self, change: impl FnOnce(&mut Scene) -> &mut Scene) -> &mut Self {
        change(&mut self.scene);
        *self = self.clone().respec();
        self
    }

    fn respec(mut self) -> Self {
        let spec = &mut self.scene.observed.instance.spec;
        if let Ok(mut value) = serde_json::from_str::<serde_json::Value>(spec) {
            value["sentinel"] = self.sentinel.clone();
            *spec = value.to_string();
        }
        self
    }

    fn settings(&self) -> Settings {
        let spec = &self.scene.observed.instance.spec;
        read(spec).or_else(|_| read_alone(spec)).unwrap_or_default()
    }

    /// The Sentinels as the policy reads them.
    pub fn group(&self) -> Group<'_> {
        Group::new(&self.scene.observed, &self.settings())
    }

    /// The data set as the policy reads it.
    pub fn view(&self) -> View<'_> {
        let group = self.group();
        self.scene.view().under(Authority { monitor: group.name.clone(), named: group.named().map(str::to_owned) })
    }

    /// What is decided, in short. A consent that is asked for is given if the scene says so.
    pub fn decided(&self, decide: impl Fn(&View<'_>, &Group<'_>) -> Decision) -> String {
        let mut given = self.clone();
        let mut decision = decide(&given.view(), &given.group());
        if given.scene.consents() {
            given.scene.observed.instance.consents = decision.blocks.iter().map(|b| b.token.clone()).collect();
            decision = decide(&given.view(), &given.group());
        }
        describe_decision(&given.scene, &decision)
    }

    fn sentinel(&mut self, i: usize, change: impl FnOnce(&mut Sentinel)) -> &mut Self {
        let id = format!("sid-{i}");
        if let Some(sentinel) = self.scene.observed.sentinels.iter_mut().find(|s| s.id == id) {
            change(sentinel);
        }
        self
    }

    fn monitor(&mut self, i: usize, change: impl FnOnce(&mut Monitor)) -> &mut Self {
        self.sentinel(i, |s| {
            if let Some(monitor) = s.monitors.first_mut() {
                change(monitor);
            }
        })
    }

    fn pod(&mut self, i: usize, change: impl FnOnce(&mut Pod)) -> &mut Self {
        let uid = format!("uid-s-{i}");
        if let Some(pod) = self.scene.observed.pods.iter_mut().find(|p| p.uid == uid) {
            change(pod);
        }
        self
    }

    /// It gives no answer.
    pub fn mute(&mut self, i: usize) -> &mut Self {
        self.sentinel(i, |s| (s.reach, s.age) = (Reach::Silent(20_000), 20_000))
    }

    /// Its word is that old (ms).
    pub fn aged(&mut self, i: usize, ms: u64) -> &mut Self {
        self.sentinel(i, |s| s.age = ms)
    }

    /// It doesn't trust its clock.
    pub fn tilt(&mut self, i: usize) -> &mut Self {
        self.sentinel(i, |s| s.tilt = true)
    }

    /// It watches nothing.
    pub fn blank(&mut self, i: usize) -> &mut Self {
        self.sentinel(i, |s| s.monitors.clear())
    }

    /// Its pod is gone.
    pub fn drop_sentinel(&mut self, i: usize) -> &mut Self {
        let (uid, id) = (format!("uid-s-{i}"), format!("sid-{i}"));
        self.scene.observed.pods.retain(|p| p.uid != uid);
        self.scene.observed.sentinels.retain(|s| s.id != id);
        self
    }

    /// Its container starts again.
    pub fn restart_sentinel(&mut self, i: usize) -> &mut Self {
        self.mute(i).pod(i, |p| (p.container, p.restarts, p.ready) = (ContainerState::Starting, 1, false))
    }

    /// Its container crashes again and again.
    pub fn stuck(&mut self, i: usize) -> &mut Self {
        self.pod(i, |p| p.waiting = "CrashLoopBackOff".into())
    }

    /// It calls that member the primary, by that epoch.
    pub fn says(&mut self, i: usize, member: usize, epoch: u64) -> &mut Self {
        self.monitor(i, |m| (m.primary, m.config_epoch) = (Upstream::Pod(format!("uid-x-{member}")), epoch))
    }

    /// It has said the same for so long (ms).
    pub fn word_age(&mut self, i: usize, ms: u64) -> &mut Self {
        self.sentinel(i, |s| s.word_age = Some(ms))
    }

    /// It calls an address the primary that no pod has.
    pub fn says_stranger(&mut self, i: usize) -> &mut Self {
        self.monitor(i, |m| m.primary = Upstream::Other(Address { host: "10.0.0.99".into(), port: 6379 }))
    }

    /// It carries a failover out.
    pub fn failing_over(&mut self, i: usize, state: &str) -> &mut Self {
        self.monitor(i, |m| m.failover_state = state.into())
    }

    /// It holds the primary for down, and enough others agree.
    pub fn objectively_down(&mut self, i: usize) -> &mut Self {
        self.monitor(i, |m| (m.subjectively_down, m.objectively_down) = (true, true))
    }

    /// It knows no replica.
    pub fn knows_none(&mut self, i: usize) -> &mut Self {
        self.monitor(i, |m| m.replicas.clear())
    }

    /// It knows no other Sentinel.
    pub fn lonely(&mut self, i: usize) -> &mut Self {
        self.monitor(i, |m| m.peers.clear())
    }

    /// It lists a replica and a Sentinel that exist no more.
    pub fn ghost(&mut self, i: usize) -> &mut Self {
        let pod = || Upstream::Other(Address { host: "10.0.0.77".into(), port: 6379 });
        self.monitor(i, |m| {
            m.replicas.push(SentinelReplica { pod: pod(), run_id: String::new(), down: true, link_up: false });
            m.peers.push(SentinelPeer { pod: pod(), id: "ghost".into(), down: true });
        })
    }

    /// It sees too few others.
    pub fn no_quorum(&mut self, i: usize) -> &mut Self {
        self.monitor(i, |m| m.quorum_reached = Some(false))
    }

    /// An option of it.
    pub fn option(&mut self, i: usize, key: &str, value: &str) -> &mut Self {
        self.monitor(i, |m| m.options.iter_mut().filter(|p| p.key == key).for_each(|p| p.value = value.into()))
    }

    /// It shows no options.
    pub fn no_options(&mut self, i: usize) -> &mut Self {
        self.monitor(i, |m| m.options.clear())
    }

    /// People want that quorum.
    pub fn want_quorum(&mut self, quorum: u32) -> &mut Self {
        self.sentinel["quorum"] = quorum.into();
        *self = self.clone().respec();
        self
    }

    /// Its quorum.
    pub fn quorum(&mut self, i: usize, quorum: u32) -> &mut Self {
        self.monitor(i, |m| m.quorum = quorum)
    }

    /// None watches anything.
    pub fn blank_all(&mut self) -> &mut Self {
        self.blank(0).blank(1).blank(2)
    }

    /// The primary has no replicas yet.
    pub fn unattached(&mut self) -> &mut Self {
        self.data(|s| s.facts(0, |f| f.replicas.clear()))
    }

    /// It alone holds the primary for down.
    pub fn subjectively_down(&mut self, i: usize) -> &mut Self {
        self.monitor(i, |m| m.subjectively_down = true)
    }

    /// It says that it is the first one.
    pub fn twin(&mut self, i: usize) -> &mut Self {
        self.sentinel(i, |s| s.id = "sid-0".into())
    }

    /// It refuses the login.
    pub fn refuse_login(&mut self, i: usize) -> &mut Self {
        let failure = Failure { lasting: 5_000, reason: "WRONGPASS invalid username-password pair".into() };
        self.sentinel(i, |s| s.reach = Reach::Refused(failure))
    }

    /// That was done at it so long ago (ms).
    pub fn told(&mut self, i: usize, operation: &str, age: u64) -> &mut Self {
        let outcome = mk_outcome(operation, &format!("rfs-x-{i}"), OutcomeKind::Done, age);
        self.scene.observed.recent.push(outcome);
        self
    }

    /// The data set had another history before.
    pub fn older_lineage(&mut self) -> &mut Self {
        let older = Lineage { replid: "older".into(), best_offset: 9, seen: NOW - 600_000 };
        self.scene.observed.ledger.lineages.push(older);
        self
    }

    /// A data server's `replica-priority`.
    pub fn priority(&mut self, i: usize, priority: u32) -> &mut Self {
        self.data(|s| {
            s.facts(i, |f| {
                if let Role::Replica(link) = &mut f.role {
                    link.priority = priority;
                }
            })
        })
    }

    /// The last primary has been silent for that long (ms).
    pub fn outage(&mut self, ms: u64) -> &mut Self {
        let server = self.scene.observed.servers.iter_mut().find(|s| s.pod == "uid-x-0");
        if let Some(server) = server {
            (server.reach, server.age) = (Reach::Silent(ms), ms);
        }
        self
    }

    /// The primary's history was first seen so long ago (ms).
    pub fn new_lineage(&mut self, ms: u64) -> &mut Self {
        self.scene.observed.ledger.lineages.iter_mut().for_each(|l| l.seen = NOW - ms);
        self
    }

    /// What became of a step about the primary role.
    pub fn recent(&mut self, operation: &str, outcome: OutcomeKind, age: u64) -> &mut Self {
        let outcome = mk_outcome(operation, vko_replica::decision::PRIMARY, outcome, age);
        self.scene.observed.recent.push(outcome);
        self
    }
}

fn sentinel_pod(i: u32) -> Pod {
    let (uid, name) = (format!("uid-s-{i}"), format!("rfs-x-{i}"));
    Pod { uid, name, workload: "rfs-x".into(), addresses: vec![format!("10.1.0.{}", i + 1)], ..mk_pod("x", i) }
}

fn mk_sentinel(pod: &Pod, i: u32, members: &[Pod]) -> Sentinel {
    let replicas = members.iter().filter(|p| p.ordinal != 0).map(|p| SentinelReplica {
        pod: Upstream::Pod(p.uid.clone()),
        run_id: format!("run-x-{}", p.ordinal),
        down: false,
        link_up: true,
    });
    let peers = (0..3).filter(|other| *other != i).map(|other| SentinelPeer {
        pod: Upstream::Pod(format!("uid-s-{other}")),
        id: format!("sid-{other}"),
        down: false,
    });
    let monitor = Monitor {
        name: "mymaster".into(),
        primary: Upstream::Pod("uid-x-0".into()),
        quorum: 2,
        quorum_reached: Some(true),
        config_epoch: 5,
        subjectively_down: false,
        objectively_down: false,
        failover_state: String::new(),
        replicas: replicas.collect(),
        peers: peers.collect(),
        options: OPTIONS.iter().map(|(key, value)| pair(*key, *value)).collect(),
    };
    Sentinel {
        pod: Upstream::Pod(pod.uid.clone()),
        reach: Reach::Answered,
        age: 500,
        id: format!("sid-{i}"),
        tilt: false,
        word_age: None,
        monitors: vec![monitor],
    }
}
