//! Draws a scenario by a seed: an instance, and rounds of a disturbance each, under writes, some with an operator that dies or a
//! faulty API server beside it.
//!
//! # Guarantees
//! 1. Equal seeds give equal scenarios, on every machine.
//! 2. Each round's losses have a published bound: a round begins when the one before is over.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vko_apiserver::fault::{Act, Fault};
use vko_script::INSTANCE;
use vko_script::folder::{Expect, Scenario};
use vko_script::step::{FIRST_OPERATOR, NodeState, ObjectName, OperatorState, SignalName, Step, Targets, Wait, Writes};
use vko_script::target::{Target, What};

/// Acknowledged writes before and after a disturbance.
const ACKS: usize = 50;
/// Rounds at most: so long that one disturbance may meet what another left behind.
const ROUNDS_MAX: u64 = 3;

/// Draws that look random. SplitMix64: few lines, and the same everywhere.
#[derive(Debug)]
pub struct Lots(u64);

impl Lots {
    /// Those of a seed.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Below `bound`, which isn't 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// In so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them; `None` if there is none.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(all.len().max(1) as u64)).unwrap_or(0);
        all.get(index).copied()
    }
}

/// What is drawn for all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instance {
    arch: &'static str,
    members: u64,
    claims: bool,
}

/// What can happen to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    KillPrimary,
    KillReplica,
    DeletePrimary,
    DeleteReplica,
    EvictPrimary,
    EmptyPrimary,
    StopReplica,
    StopPrimary,
    PrimarysNodeLosesPower,
    PrimarysNodeIsCutOff,
    DeleteAll,
    DeleteSentinels,
    ChangeMembers,
}

impl Disturbance {
    /// Those that an instance of that kind has a published bound for.
    fn of(instance: Instance) -> Vec<Self> {
        let mut all = vec![
            Self::KillPrimary,
            Self::KillReplica,
            Self::DeletePrimary,
            Self::DeleteReplica,
            Self::EvictPrimary,
            Self::EmptyPrimary,
            Self::PrimarysNodeLosesPower,
            Self::PrimarysNodeIsCutOff,
        ];
        if instance.claims {
            all.push(Self::DeleteAll);
        }
        match instance.arch {
            "replica" => all.extend([Self::StopReplica, Self::ChangeMembers]),
            "failover" => all.extend([Self::StopReplica, Self::DeleteSentinels, Self::ChangeMembers]),
            _ => {}
        }
        // Below three members a silent primary that no copy can replace stays.
        if instance.arch == "replica" && instance.members >= 3 {
            all.push(Self::StopPrimary);
        }
        all
    }

    /// Its row in docs/losses.md.
    fn bound(self, arch: &str) -> &'static str {
        match (self, arch) {
            (Self::DeletePrimary | Self::EvictPrimary | Self::DeleteReplica, _) => "pod-deleted",
            (Self::EmptyPrimary, _) => "pod-restarted-empty",
            (Self::StopPrimary, _) => "partition-primary",
            (Self::PrimarysNodeLosesPower, _) => "node-lost",
            (Self::DeleteAll, _) => "all-pods",
            (Self::DeleteSentinels, _) => "sentinel-deleted",
            (Self::ChangeMembers, "replica") => "scale",
            (Self::ChangeMembers, _) => "hand-over",
            (Self::StopReplica | Self::PrimarysNodeIsCutOff | Self::KillPrimary | Self::KillReplica, _) => "container-killed",
        }
    }

    /// What happens, and what is waited for once an operator is there.
    fn steps(self, round: u64, lots: &mut Lots, instance: &mut Instance) -> (Vec<Step>, Vec<Step>) {
        // Of a cluster, the first shard's: its members are as good as the others'.
        let shard = (instance.arch == "cluster").then_some(0);
        let found = |what| Targets(vec![Target::Found { what, shard, instance: None }]);
        let name = format!("hit{round}");
        let hit = || Targets(vec![Target::Remembered(name.clone())]);
        let remember = |what| Step::Remember(BTreeMap::from([(name.clone(), found(what))]));
        let signal = |signal| Step::Signal { pods: hit(), signal };
        let delete = |grace| Step::DeletePods { pods: hit(), grace };
        let another = || Step::Wait(Wait::PrimaryNot(hit()));
        let node = |becomes| Step::Node { of: hit(), becomes };
        let (mut during, mut after) = (Vec::new(), Vec::new());
        match self {
            Self::KillPrimary => during.extend([remember(What::Primary), signal(SignalName::Kill)]),
            Self::KillReplica => during.extend([remember(What::Replica), signal(SignalName::Kill)]),
            Self::DeletePrimary => during.extend([remember(What::Primary), delete(None)]),
            Self::DeleteReplica => during.extend([remember(What::Replica), delete(None)]),
            Self::EvictPrimary => during.extend([remember(What::Primary), Step::Evict(hit())]),
            Self::EmptyPrimary => during.extend([remember(What::Primary), signal(SignalName::Kill), delete(Some(0))]),
            Self::DeleteAll => during.extend([remember(What::Servers), delete(Some(lots.below(2) * 30))]),
            Self::DeleteSentinels => during.extend([remember(What::Sentinels), delete(None)]),
            Self::StopReplica => {
                let hold = Step::Hold(5 + lots.below(10));
                during.extend([remember(What::Replica), signal(SignalName::Stop), hold, signal(SignalName::Cont)]);
            }
            Self::StopPrimary => {
                during.extend([remember(What::Primary), signal(SignalName::Stop)]);
                after.extend([another(), signal(SignalName::Cont)]);
            }
            Self::PrimarysNodeLosesPower => {
                let hold = Step::Hold(2 + lots.below(15));
                during.extend([remember(What::Primary), node(NodeState::PowerLost), hold, node(NodeState::Well)]);
            }
            Self::PrimarysNodeIsCutOff => {
                let hold = Step::Hold(2 + lots.below(15));
                during.extend([remember(What::Primary), node(NodeState::CutOff), hold, node(NodeState::Well)]);
            }
            Self::ChangeMembers => {
                instance.members = if instance.members > 2 { 2 } else { 3 };
                during.push(Step::Patch {
                    object: ObjectName { namespace: None, resource: "valkeys.rds.valkey.buf.red".into(), name: INSTANCE.into() },
                    with: json!({"spec": {"replicas": {"replicasOfShard": instance.members}}}),
                });
            }
        }
        if during.iter().any(|step| matches!(step, Step::DeletePods { .. } | Step::Evict(_))) {
            after.push(Step::Wait(Wait::Replaced(hit())));
        }
        (during, after)
    }
}

/// The scenario of a seed.
pub fn draw(seed: u64) -> Scenario {
    let mut lots = Lots::of(seed);
    let arch = lots.one_of(&["replica", "replica", "failover", "failover", "cluster"]).unwrap_or("replica");
    let mut instance = Instance { arch, members: 2 + lots.below(2), claims: lots.chance(50) };
    if arch == "cluster" {
        // Seven servers and their probes are what two cores bear beside others.
        instance.members = 2;
    }
    let manifest = manifest(instance);
    let mut steps = vec![Step::Apply("manifest.yaml".into()), Step::Wait(Wait::Ready(INSTANCE.into()))];
    if lots.chance(25) {
        let faults: Vec<Step> = (0..=lots.below(4)).map(|_| Step::ApiFault(fault(&mut lots))).collect();
        steps.splice(0..0, faults);
    }
    let (mut about, mut operators) = (Vec::new(), 0);
    for round in 0..=lots.below(ROUNDS_MAX) {
        let Some(disturbance) = lots.one_of(&Disturbance::of(instance)) else { continue };
        about.push(format!("{disturbance:?}"));
        steps.extend([Step::Writes(Writes::On(INSTANCE.into())), Step::Writes(Writes::Acks(ACKS))]);
        if lots.chance(30) {
            about.push("with a faulty API server".into());
            steps.extend((0..=lots.below(4)).map(|_| Step::ApiFault(fault(&mut lots))));
        }
        let dies = lots.chance(30).then(|| 1 + lots.below(12));
        if let Some(effects) = dies {
            about.push(format!("by an operator that dies after {effects} effects"));
            steps.push(operator(operators, OperatorState::Killed));
            operators += 1;
            steps.push(operator(operators, OperatorState::StartedToDieAfter(effects)));
        }
        let (during, after) = disturbance.steps(round, &mut lots, &mut instance);
        steps.extend(during);
        if dies.is_some() {
            operators += 1;
            steps.push(operator(operators, OperatorState::Started));
        }
        steps.extend(after);
        steps.extend([
            Step::Wait(Wait::Calm(INSTANCE.into())),
            Step::Writes(Writes::Acks(ACKS)),
            Step::Writes(Writes::Verify(disturbance.bound(arch).into())),
        ]);
    }
    let about = format!("seed {seed}: {arch}, {}", about.join(", "));
    let expect = Expect { about, no_events: vec!["DataLost".into()], faults_may_miss: true, ..Expect::default() };
    Scenario {
        name: format!("seed-{seed}"),
        steps,
        expect,
        manifests: BTreeMap::from([("manifest.yaml".into(), vec![manifest])]),
    }
}

fn manifest(instance: Instance) -> Value {
    let mut replicas = json!({"replicasOfShard": instance.members});
    if instance.arch == "cluster" {
        replicas["shards"] = json!(3);
    }
    let resources = json!({"limits": {"memory": "64Mi"}});
    let mut spec = json!({"version": "9.1", "arch": instance.arch, "replicas": replicas, "resources": resources});
    if instance.claims {
        spec["storage"] = json!({"capacity": "1Gi"});
    }
    if instance.arch == "failover" {
        spec["sentinel"] = json!({"monitorConfig": {"down-after-milliseconds": "5000"}});
    }
    json!({"apiVersion": "rds.valkey.buf.red/v1alpha1", "kind": "Valkey", "metadata": {"name": INSTANCE}, "spec": spec})
}

/// The operator of that number.
fn operator(number: u64, becomes: OperatorState) -> Step {
    let name = if number == 0 { FIRST_OPERATOR.to_owned() } else { format!("operator-{number}") };
    Step::Operator { name, becomes }
}

/// Something that goes wrong between an operator and the API server, a few times.
fn fault(lots: &mut Lots) -> Fault {
    let of_watch = lots.chance(40);
    let act = if of_watch {
        let delay = Act::Delay { ms: 500 + lots.below(4000) };
        [Act::Double, Act::End, Act::Expire, delay][usize::try_from(lots.below(4)).unwrap_or(0)].clone()
    } else {
        let refuse = Act::Refuse { code: lots.one_of(&[409, 429, 500, 503]).unwrap_or(500) };
        [refuse, Act::Break, Act::LoseAnswer, Act::Lose][usize::try_from(lots.below(4)).unwrap_or(0)].clone()
    };
    let verb =
        if of_watch { "watch" } else { lots.one_of(&["apply", "create", "replace", "merge", "delete"]).unwrap_or("apply") };
    let resource =
        if of_watch { lots.one_of(&["pods", "secrets", "statefulsets.apps", "valkeys.rds.valkey.buf.red"]) } else { None };
    Fault {
        verb: verb.into(),
        resource: resource.unwrap_or_default().into(),
        name: String::new(),
        client: String::new(),
        after: u32::try_from(lots.below(6)).unwrap_or(0),
        times: 1 + u32::try_from(lots.below(3)).unwrap_or(0),
        act,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_seeds_give_equal_scenarios_and_their_folders_say_the_same() {
        let folder = std::env::temp_dir().join(format!("vko-seeds-{}", std::process::id()));
        for seed in 0..100 {
            let drawn = draw(seed);
            assert_eq!(drawn, draw(seed));
            let folder = folder.join(&drawn.name);
            drawn.write(&folder).unwrap();
            assert_eq!(Scenario::read(&folder).unwrap(), drawn, "{}", drawn.expect.about);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_disturbance_is_drawn_for_every_architecture_that_it_is_for_and_has_a_bound() {
        let about: BTreeSet<String> = (0..2000).map(|seed| draw(seed).expect.about).collect();
        for arch in ["replica", "failover", "cluster"] {
            for disturbance in Disturbance::of(Instance { arch, members: if arch == "cluster" { 2 } else { 3 }, claims: true }) {
                let is_drawn =
                    |about: &&String| about.contains(&format!(": {arch},")) && about.contains(&format!("{disturbance:?}"));
                assert!(about.iter().any(|about| is_drawn(&about)), "{arch} {disturbance:?}");
                vko_clients::losses::bound(arch, disturbance.bound(arch)).unwrap();
            }
        }
    }
}
