//! Never two writers, the old one first.

use serde_json::json;
use vko_api::names;
use vko_wit::planning::{Routing, Writer};

use super::{apply, changes};
use crate::guard::testing::{Scene, uid};
use crate::object::{Kind, Object, ObjectId};
use crate::testing::mk_site;
use crate::world::ApiError;

fn pod(ordinal: u32, role: &str, reader: bool, deleting: bool) -> Object {
    let mut labels = json!({names::ROLE: role});
    if reader {
        labels[names::READER] = json!("true");
    }
    let mut metadata = json!({"name": format!("rfr-x-{ordinal}"), "uid": uid(ordinal), "labels": labels});
    if deleting {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Object::new(json!({"metadata": metadata}))
}

fn routing(writer: Option<u32>, readers: &[u32]) -> Routing {
    let writer = writer.map_or(Writer::None, |ordinal| Writer::Pod(uid(ordinal)));
    Routing { writer, readers: readers.iter().map(|ordinal| uid(*ordinal)).collect() }
}

fn shown(scene: &Scene, pods: &[Object], routing: &Routing) -> Vec<String> {
    let show = |c: super::Change| format!("{}={}{}", c.pod, c.role, if c.reader { "+reader" } else { "" });
    changes(&scene.0, pods, routing).into_iter().map(show).collect()
}

/// Name, observation, pods as labelled, routing, changes in order.
type Case<'a> = (&'a str, &'a Scene, Vec<Object>, Routing, &'a [&'a str]);

#[test]
fn labels_follow_observed_roles() {
    let labelled = || vec![pod(0, "master", false, false), pod(1, "replica", true, false), pod(2, "replica", true, false)];
    let (healthy, one) = (Scene::healthy(3), Scene::healthy(1));
    let mut handed_over = Scene::healthy(3);
    handed_over.facts(1).role = vko_wit::observation::Role::Primary;
    handed_over.follow(0, 1).follow(2, 1);
    let mut silent = Scene::healthy(3);
    silent.silence(0);
    let mut unheard = Scene::healthy(3);
    unheard.unhear(0);
    let mut two = Scene::healthy(3);
    two.facts(1).role = vko_wit::observation::Role::Primary;
    let table: Vec<Case<'_>> = vec![
        ("as they are", &healthy, labelled(), routing(Some(0), &[1, 2]), &[]),
        (
            "the role moved: off before on",
            &handed_over,
            labelled(),
            routing(Some(1), &[0, 2]),
            &["rfr-x-0=replica+reader", "rfr-x-1=master"],
        ),
        (
            "the role moves to a lower ordinal: off before on all the same",
            &healthy,
            vec![pod(0, "replica", true, false), pod(1, "master", false, false)],
            routing(Some(0), &[1]),
            &["rfr-x-1=replica+reader", "rfr-x-0=master"],
        ),
        ("chosen, but its server says replica", &healthy, labelled(), routing(Some(1), &[1, 2]), &["rfr-x-0="]),
        ("a silent writer that stays chosen", &silent, labelled(), routing(Some(0), &[1, 2]), &[]),
        ("a silent writer that nobody heard", &unheard, labelled(), routing(Some(0), &[1, 2]), &[]),
        ("nobody is chosen", &silent, labelled(), routing(None, &[1, 2]), &["rfr-x-0="]),
        ("two that say primary", &two, labelled(), routing(Some(0), &[2]), &["rfr-x-1="]),
        (
            "an ending pod keeps no writer's label",
            &handed_over,
            vec![pod(0, "master", false, true), pod(1, "replica", false, false)],
            routing(Some(1), &[]),
            &["rfr-x-0=replica", "rfr-x-1=master"],
        ),
        ("an ending replica isn't touched", &healthy, vec![pod(1, "", true, true)], routing(Some(0), &[]), &[]),
        (
            "a new pod gets its role",
            &healthy,
            vec![pod(2, "", false, false)],
            routing(Some(0), &[2]),
            &["rfr-x-2=replica+reader"],
        ),
        (
            "one member: writer and reader",
            &one,
            vec![pod(0, "", false, false)],
            routing(Some(0), &[0]),
            &["rfr-x-0=master+reader"],
        ),
    ];
    for (case, scene, pods, routing, expected) in table {
        assert_eq!(shown(scene, &pods, &routing), expected, "{case}");
    }
}

fn two_changes() -> Vec<super::Change> {
    let change = |ordinal: u32, role: &str| super::Change {
        pod: format!("rfr-x-{ordinal}"),
        uid: uid(ordinal),
        role: role.into(),
        reader: false,
    };
    vec![change(0, ""), change(1, "master")]
}

#[tokio::test]
async fn a_label_that_cannot_be_taken_off_stops_the_next_from_being_put_on() {
    let (world, site) = mk_site(2);
    world.state().refusals.push(("merge Pod rfr-x-0".into(), ApiError::Unavailable("away".into())));
    apply(&site, "shop", &two_changes()).await.unwrap_err();
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_pod_that_is_gone_carries_no_label() {
    let (world, site) = mk_site(2);
    world.state().objects.remove(&ObjectId::new(Kind::Pod, "shop", "rfr-x-0"));
    apply(&site, "shop", &two_changes()).await.unwrap();
    assert_eq!(world.effects(), ["merge Pod rfr-x-1"]);
}

#[tokio::test]
async fn a_successor_of_the_same_name_is_not_labelled() {
    let (world, site) = mk_site(2);
    let id = ObjectId::new(Kind::Pod, "shop", "rfr-x-0");
    let mut successor = world.object(&id).unwrap();
    successor["metadata"]["uid"] = json!("new");
    world.state().put(successor);
    apply(&site, "shop", &two_changes()).await.unwrap_err();
    assert_eq!(world.effects(), Vec::<String>::new());
}
