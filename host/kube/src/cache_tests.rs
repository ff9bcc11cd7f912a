use serde_json::json;
use tokio::sync::broadcast::error::TryRecvError;

use super::*;

const OURS: usize = 0;
const POLICY: usize = 1;

fn caches() -> Caches {
    let selection = |key, value| Selection { kind: Kind::ConfigMap, namespace: None, label: Some((key, value)) };
    Caches::new(vec![selection(names::MANAGED_BY, Some(names::OPERATOR)), selection(names::POLICY, None)])
}

fn object(name: &str, instance: &str, version: u64, data: &str) -> Object {
    Object::new(json!({
        "metadata": {
            "namespace": "n", "name": name, "uid": format!("{name}-1"), "resourceVersion": version.to_string(),
            "labels": { names::MANAGED_BY: names::OPERATOR, names::INSTANCE: instance },
        },
        "data": {"a": data},
    }))
}

fn id(name: &str) -> ObjectId {
    ObjectId::new(Kind::ConfigMap, "n", name)
}

fn held(caches: &Caches, name: &str) -> Option<(u64, String)> {
    caches.get(&id(name)).map(|object| (version(&object), object.text("/data/a").to_owned()))
}

fn announced(changes: &mut broadcast::Receiver<Change>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    loop {
        match changes.try_recv() {
            Ok(change) => all.push((change.id.name, change.instance)),
            Err(TryRecvError::Empty) => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

fn names(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_version_alone_wakes_nobody_but_is_kept() {
    let caches = caches();
    caches.put(OURS, Kind::ConfigMap, object("x", "i", 5, "1"));
    let mut changes = caches.changes();
    caches.put(OURS, Kind::ConfigMap, object("x", "i", 6, "1"));
    assert_eq!(announced(&mut changes), names(&[]));
    assert_eq!(held(&caches, "x"), Some((6, "1".into())));
    caches.put(OURS, Kind::ConfigMap, object("x", "i", 7, "2"));
    assert_eq!(announced(&mut changes), names(&[("x", "i")]));
}

#[test]
fn a_write_is_read_at_once_and_late_events_do_not_undo_it() {
    let caches = caches();
    caches.put(OURS, Kind::ConfigMap, object("x", "i", 5, "1"));
    let mut changes = caches.changes();
    caches.absorb(Kind::ConfigMap, &object("x", "i", 9, "written"));
    assert_eq!(held(&caches, "x"), Some((9, "written".into())));
    caches.put(OURS, Kind::ConfigMap, object("x", "i", 7, "on the way before"));
    assert_eq!(held(&caches, "x"), Some((9, "written".into())), "an older event changes nothing");
    caches.remove(OURS, &id("x"), 8);
    assert_eq!(held(&caches, "x"), Some((9, "written".into())), "nor does the deletion of a former object of that name");
    caches.put(OURS, Kind::ConfigMap, object("x", "i", 9, "written"));
    assert_eq!(announced(&mut changes), names(&[("x", "i")]), "announced once: by the write");
}

#[test]
fn absorbs_by_table() {
    let foreign = Object::new(json!({"metadata": {"namespace": "n", "name": "x", "resourceVersion": "99"}}));
    let unnumbered = {
        let mut value = (*object("x", "i", 1, "answer").0).clone();
        value["metadata"]["resourceVersion"] = json!("abc");
        Object::new(value)
    };
    for (name, known, position, answer, expected) in [
        ("newer than what is known", Some(5), 5, object("x", "i", 6, "answer"), Some("answer")),
        ("older than what is known", Some(7), 7, object("x", "i", 6, "answer"), Some("known")),
        ("new to the watch", None, 5, object("x", "i", 6, "answer"), Some("answer")),
        ("deleted meanwhile, and the watch said so", None, 7, object("x", "i", 6, "answer"), None),
        ("not selected by any watch", None, 5, foreign, None),
        ("a version that is no number", None, 0, unnumbered, None),
    ] {
        let caches = caches();
        if let Some(version) = known {
            caches.put(OURS, Kind::ConfigMap, object("x", "i", version, "known"));
        }
        caches.reached(OURS, position);
        caches.absorb(Kind::ConfigMap, &answer);
        assert_eq!(held(&caches, "x").map(|(_, data)| data), expected.map(str::to_owned), "{name}");
    }
}

#[test]
fn a_fresh_list_removes_what_it_lacks_but_nothing_newer() {
    let caches = caches();
    for (name, version) in [("gone", 5), ("stays", 5), ("newer", 12)] {
        caches.put(OURS, Kind::ConfigMap, object(name, "i", version, "1"));
    }
    caches.put(POLICY, Kind::ConfigMap, object("other-watch", "", 5, "1"));
    let mut changes = caches.changes();
    caches.listed(OURS, &BTreeSet::from([id("stays")]), 10, Duration::ZERO);
    assert_eq!(announced(&mut changes), names(&[("gone", "i")]));
    let left: Vec<_> = caches.all(Kind::ConfigMap).iter().map(|object| object.name().to_owned()).collect();
    assert_eq!(left, ["newer", "other-watch", "stays"]);
}

#[test]
fn an_object_that_moves_to_another_instance_is_news_for_both() {
    let caches = caches();
    caches.put(OURS, Kind::ConfigMap, object("x", "old", 5, "1"));
    let mut changes = caches.changes();
    caches.put(OURS, Kind::ConfigMap, object("x", "new", 6, "1"));
    assert_eq!(announced(&mut changes), names(&[("x", "old"), ("x", "new")]));
    assert!(caches.of(Kind::ConfigMap, "n", "old").is_empty());
    assert_eq!(caches.of(Kind::ConfigMap, "n", "new").len(), 1);
}

#[test]
fn an_instance_sees_its_own_sorted_by_name() {
    let caches = caches();
    for (name, instance) in [("b", "i"), ("a", "i"), ("c", "j")] {
        caches.put(OURS, Kind::ConfigMap, object(name, instance, 5, "1"));
    }
    let of: Vec<_> = caches.of(Kind::ConfigMap, "n", "i").iter().map(|object| object.name().to_owned()).collect();
    assert_eq!(of, ["a", "b"]);
    assert!(caches.of(Kind::ConfigMap, "elsewhere", "i").is_empty());
    assert!(caches.of(Kind::Secret, "n", "i").is_empty());
    assert!(caches.all(Kind::Secret).is_empty());
    caches.remove(OURS, &id("a"), 6);
    assert_eq!(caches.of(Kind::ConfigMap, "n", "i").len(), 1);
}

#[test]
fn a_selection_that_loses_an_object_leaves_it_to_the_one_that_has_it() {
    let caches = caches();
    caches.put(OURS, Kind::ConfigMap, object("x", "i", 5, "1"));
    caches.put(POLICY, Kind::ConfigMap, object("x", "i", 6, "1"));
    caches.remove(OURS, &id("x"), 6);
    assert!(caches.get(&id("x")).is_some());
    caches.remove(POLICY, &id("x"), 7);
    assert!(caches.get(&id("x")).is_none());
}

#[tokio::test]
async fn the_age_is_that_of_the_oldest_watch_and_unknown_before_all_are_listed() {
    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
    let caches = caches();
    assert_eq!(caches.age(Kind::ConfigMap, s(100)), None);
    caches.listed(OURS, &BTreeSet::new(), 1, s(100));
    assert_eq!(caches.age(Kind::ConfigMap, s(100)), None, "the other one isn't listed");
    caches.listed(POLICY, &BTreeSet::new(), 1, s(110));
    caches.synced().await;
    assert_eq!(caches.age(Kind::ConfigMap, s(115)), Some(s(15)));
    caches.alive(OURS, s(114));
    assert_eq!(caches.age(Kind::ConfigMap, s(115)), Some(s(5)));
    assert_eq!(caches.age(Kind::Lease, s(115)), None, "not watched");
}
