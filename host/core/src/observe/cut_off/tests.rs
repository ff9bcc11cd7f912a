//! Who is cut off: they or we.

use super::{CutOff, cut_off};
use crate::guard::testing::Scene;

type Change = fn(&mut Scene) -> &mut Scene;

#[test]
fn more_than_half_at_least_two_on_two_nodes_silent_and_ready() {
    let table: &[(&str, u32, Change, bool)] = &[
        ("all answer", 3, |s| s, false),
        ("one of three is silent", 3, |s| s.silence(0), false),
        ("two of three are silent", 3, |s| s.silence(0).silence(1), true),
        ("two of four are silent", 4, |s| s.silence(0).silence(1), false),
        ("the only one is silent", 1, |s| s.silence(0), false),
        ("both are silent", 2, |s| s.silence(0).silence(1), true),
        ("both are silent, on one node", 2, |s| one_node(s.silence(0).silence(1)), false),
        ("two of three are silent, and one of them isn't ready", 3, |s| unready(s.silence(0).silence(1)), false),
        ("two of three are dead", 3, |s| s.kill(0).kill(1), false),
        ("two of three were never heard", 3, |s| s.unhear(0).unhear(1), false),
        ("three of five are silent", 5, |s| s.silence(0).silence(1).silence(2), true),
    ];
    for (case, members, change, expected) in table {
        let mut scene = Scene::healthy(*members);
        change(&mut scene);
        assert_eq!(cut_off(&scene.0) != CutOff::No, *expected, "{case}");
    }
    let mut scene = Scene::healthy(3);
    scene.silence(2).silence(1);
    assert_eq!(cut_off(&scene.0), CutOff::Yes(vec!["rfr-x-1".into(), "rfr-x-2".into()]), "it names them");
}

fn one_node(scene: &mut Scene) -> &mut Scene {
    scene.pod(0).node = "node".into();
    scene.pod(1).node = "node".into();
    scene
}

fn unready(scene: &mut Scene) -> &mut Scene {
    scene.pod(1).ready = false;
    scene
}
