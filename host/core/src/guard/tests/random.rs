//! Any observation and any plan: the guard never panics, and what it admits never makes two primaries.

use crate::guard::guard;
use crate::guard::testing::{CALM, Scene, evict, follow, hand_over, mk_member, mk_plan, promote, replica_of, step, track, uid};
use vko_wit::observation::{ContainerState, LastPrimary, NodeState, Reach, Role, Upstream};
use vko_wit::planning::{FenceSetting, Operation};

/// Numbers that look random and are the same in each run.
pub(super) struct Dice(u64);

impl Dice {
    /// One for each seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides.max(1)
    }

    pub(super) fn member(&mut self, members: u32) -> u32 {
        u32::try_from(self.roll(u64::from(members) + 1)).unwrap()
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

fn scene(dice: &mut Dice) -> (Scene, u32) {
    let members = [1, 2, 3, 5][usize::try_from(dice.roll(4)).unwrap()];
    let mut scene = if dice.one_in(5) { Scene::unformed(members) } else { Scene::healthy(members) };
    if dice.one_in(6) {
        scene.0.ledger.formed = None;
    }
    if dice.one_in(3) {
        scene.claims(members + 1);
    }
    let last = dice.member(members);
    if dice.one_in(3) {
        scene.0.ledger.last_primary = LastPrimary::Members(vec![mk_member(last)]);
    }
    for ordinal in 0..members {
        upset(&mut scene, ordinal, members, dice);
    }
    (scene, members)
}

/// One fault or none for a member.
fn upset(scene: &mut Scene, ordinal: u32, members: u32, dice: &mut Dice) {
    match dice.roll(16) {
        0 => _ = scene.silence(ordinal),
        1 => _ = scene.kill(ordinal),
        2 => _ = scene.replace(ordinal),
        3 => _ = scene.unhear(ordinal),
        4 => _ = scene.restart(ordinal, 0),
        5 => _ = scene.empty(ordinal),
        6 => _ = scene.detach(ordinal),
        7 => scene.facts(ordinal).role = Role::Primary,
        8 => scene.facts(ordinal).role = replica_of(Upstream::Pod(uid(dice.member(members)))),
        9 => {
            scene.pod(ordinal).node_state =
                [NodeState::Gone, NodeState::Silent, NodeState::Unknown][usize::try_from(dice.roll(3)).unwrap()]
        }
        10 => scene.pod(ordinal).container = ContainerState::Unknown,
        11 => scene.pod(ordinal).addresses.clear(),
        12 => scene.server(ordinal).reach = Reach::Loading(None),
        13 => scene.facts(ordinal).replid = "h9".into(),
        14 => (scene.facts(ordinal).offset, scene.server(ordinal).age) = (u64::MAX, u64::MAX),
        _ => {}
    }
    if dice.one_in(3) {
        let detached = if dice.one_in(2) { 0 } else { 9_000 };
        scene.fence(ordinal, dice.member(members), detached);
    }
}

fn operation(dice: &mut Dice, members: u32) -> Operation {
    let (a, b) = (dice.member(members), dice.member(members));
    match dice.roll(10) {
        0 => evict(a),
        1 => Operation::ForceDelete(uid(a)),
        2 => Operation::DeleteClaim(format!("claim-{a}")),
        3 => follow(a, b),
        4 => hand_over(a, b),
        5 => Operation::Detach(uid(a)),
        6 => Operation::Fence(FenceSetting { pod: uid(a), min_replicas: b }),
        _ => promote(a),
    }
}

#[test]
fn no_plan_makes_two_primaries() {
    let mut promotions = 0;
    for seed in 1..=20_000_u64 {
        let mut dice = Dice::new(seed);
        let (scene, members) = scene(&mut dice);
        let steps = |dice: &mut Dice| (0..=dice.roll(3)).map(|_| step(operation(dice, members))).collect();
        let plan = mk_plan((0..=dice.roll(3)).map(|n| track(&n.to_string(), steps(&mut dice))).collect());
        let guarded = guard(&plan, &scene.0, CALM, &[]);
        let admitted: Vec<&Operation> =
            guarded.tracks.iter().flat_map(|track| &track.steps).map(|step| &step.operation).collect();
        let mut heirs: Vec<&str> = admitted
            .iter()
            .filter_map(|operation| match operation {
                Operation::Promote(pod) => Some(pod.as_str()),
                Operation::HandOver(order) => Some(order.replica.as_str()),
                _ => None,
            })
            .collect();
        heirs.sort_unstable();
        heirs.dedup();
        assert!(heirs.len() <= 1, "seed {seed}: {heirs:?}");
        for pod in admitted.iter().filter_map(|operation| if let Operation::Promote(pod) = operation { Some(pod) } else { None })
        {
            promotions += 1;
            let leads = |server: &&vko_wit::observation::Server| {
                let says = server.facts.as_ref().is_some_and(|facts| facts.role == Role::Primary);
                &server.pod != pod && says && server.reach == Reach::Answered && server.age < 6_000
            };
            let other = scene.0.servers.iter().find(leads).map(|server| &server.pod);
            assert_eq!(other, None, "seed {seed}: {pod} is promoted beside a primary that answers");
        }
    }
    assert!(promotions > 100, "the dice must bring promotions that are allowed: {promotions}");
}
