//! Scenes to try a policy of the failover architecture on, by what happened; see the replica policy's.

use vko_replica::testing::{Exhibit, Need, Scene};

use super::{Watched, random_watched};

type Change = fn(&mut Watched) -> &mut Watched;

const REST: &[(&str, Change)] = &[
    ("as declared", |w| w),
    ("as declared, on volumes", |w| w.data(|s| s.with_claims())),
    ("a replica is silent", |w| w.data(|s| s.silence(1))),
];

const ACT: &[(&str, Change)] = &[
    ("the primary is dead, and the Sentinels haven't noticed", |w| w.data(|s| s.with_claims().kill(0))),
    ("the primary is dead, and the Sentinels know nothing", |w| w.blank(0).blank(1).blank(2).data(|s| s.with_claims().kill(0))),
    ("the primary is dead, and two Sentinels are gone", |w| {
        w.drop_sentinel(0).drop_sentinel(1).data(|s| s.with_claims().kill(0))
    }),
    ("all were restarted at once, with append-only files", |w| {
        let origin = "append-only-file";
        w.data(|s| s.with_claims().restart(0, origin).restart(1, origin).restart(2, origin))
    }),
    ("a Sentinel came back knowing nothing", |w| w.blank(1)),
    ("a replica was restarted and follows nobody", |w| w.data(|s| s.restart(1, "snapshot"))),
];

const SAFETY: &[(&str, Change)] = &[
    ("a Sentinel carries a failover out", |w| w.failing_over(1, "select_slave").data(|s| s.kill(0))),
    ("the Sentinels hold the primary for down", |w| w.objectively_down(0)),
    ("a Sentinel is silent", |w| w.mute(0)),
    ("a Sentinel stands still", |w| w.tilt(0)),
    ("a Sentinel watches a stranger", |w| w.says_stranger(0)),
    ("the Sentinels call another one the primary", |w| w.says(0, 1, 6).says(1, 1, 6).says(2, 1, 6)),
    ("the Sentinels disagree", |w| w.says(0, 1, 6).says(1, 2, 6)),
    ("the primary is silent, and the Sentinels are quiet", |w| w.data(|s| s.silence(0))),
    ("the primary is silent, and two Sentinels are, too", |w| w.mute(0).mute(1).data(|s| s.silence(0))),
    ("the primary is dead, and two Sentinels are silent", |w| w.mute(0).mute(1).data(|s| s.kill(0))),
    ("the only data is away", |w| w.data(|s| s.with_claims().kill(0).restart(1, "empty").restart(2, "empty"))),
    ("two answer as primaries", |w| w.data(|s| s.rise(1))),
    ("a Sentinel refuses the login", |w| w.refuse_login(0)),
    ("the Sentinels are others', as declared", |w| w.refer()),
    ("the Sentinels are others', the primary is dead", |w| w.refer().data(|s| s.kill(0))),
    ("the ledger was lost", |w| w.data(|s| s.forget_all())),
];

/// Random scenes beside the named ones.
const RANDOM: u64 = 300;

fn exhibit(name: &str, watched: Watched, need: Need) -> Exhibit {
    Exhibit { name: name.into(), observed: watched.scene.observed, need }
}

/// All scenes, in the order in which they are worth reading.
pub fn gallery() -> Vec<Exhibit> {
    let mut left = Watched::over(Scene::new("x", 3));
    left.data(|s| s.silence(0));
    let mut all = vec![
        exhibit("created: the Sentinels call a silent member the primary", left, Need::Safety),
        exhibit("created: all answer, the Sentinels know nothing", Watched::new("x", 3), Need::Act),
        exhibit("Sentinels that stand alone", Watched::alone("x"), Need::Rest),
    ];
    for (need, rows) in [(Need::Rest, REST), (Need::Act, ACT), (Need::Safety, SAFETY)] {
        all.extend(rows.iter().map(|(name, change)| {
            let mut watched = Watched::healthy("x", 3);
            change(&mut watched);
            exhibit(name, watched, need)
        }));
    }
    all.extend((1..=RANDOM).map(|seed| exhibit(&format!("random {seed}"), random_watched(seed), Need::Safety)));
    all
}
