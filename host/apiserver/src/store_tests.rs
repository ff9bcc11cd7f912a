//! Judgements of writes, each a case.

use super::*;

const US: Manner<'static> = Manner::by("us");

fn store() -> Store {
    Store { now_ms: 1_800_000_000_000, ..Store::default() }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"k": "1"}})
}

fn key(name: &str) -> Key {
    Key::new("configmaps", "n", name)
}

fn code<T>(result: Result<T, Refusal>) -> (u16, &'static str) {
    result.err().map_or((200, ""), |refusal| (refusal.code, refusal.reason))
}

fn definition() -> Value {
    let spec = json!({"type": "object", "properties": {"members": {"type": "integer"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.x.org"},
        "spec": {"group": "x.org", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": [version]}})
}

fn thing(members: u32) -> Value {
    json!({"apiVersion": "x.org/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "n"}, "spec": {"members": members}})
}

#[test]
fn creating_never_overwrites_and_gives_what_the_server_gives() {
    let mut store = store();
    let made = store.create("configmaps", config_map("a"), US).unwrap();
    assert_eq!(made["metadata"]["creationTimestamp"], "2027-01-15T08:00:00Z");
    assert!(!text(&made, "/metadata/uid").is_empty() && text(&made, "/metadata/resourceVersion") == "1");
    assert_eq!(code(store.create("configmaps", config_map("a"), US)), (409, "AlreadyExists"));
    assert_eq!(code(store.create("nothings", config_map("a"), US)), (404, "NotFound"));
}

#[test]
fn a_write_that_changes_nothing_moves_no_version() {
    let mut store = store();
    let made = store.create("configmaps", config_map("a"), US).unwrap();
    store.now_ms += 5_000;
    assert_eq!(store.replace(&key("a"), (*made).clone(), US).unwrap(), made);
    assert_eq!(store.merge(&key("a"), &json!({"data": {"k": "1"}}), Manner::by("them")).unwrap(), made);
    let applied = store.apply(&key("a"), config_map("a"), US, true).unwrap();
    assert_eq!(store.apply(&key("a"), config_map("a"), US, true).unwrap(), applied);
    assert_eq!(store.version(), 2, "one create, one record of who applied");
}

#[test]
fn writes_are_bound_by_table() {
    let made = |store: &mut Store| store.create("configmaps", config_map("a"), US).unwrap();
    for (name, metadata, expected) in [
        ("nothing named", json!({}), (200, "")),
        ("the version", json!({"resourceVersion": "1"}), (200, "")),
        ("an old version", json!({"resourceVersion": "0"}), (409, "Conflict")),
        ("another UID", json!({"uid": "x"}), (409, "Conflict")),
    ] {
        let (mut one, mut two, mut three) = (store(), store(), store());
        made(&mut one);
        let mut whole = config_map("a");
        whole["metadata"] = merged(whole["metadata"].clone(), &metadata);
        whole["data"]["k"] = json!("2");
        assert_eq!(code(one.replace(&key("a"), whole.clone(), US)), expected, "replace, {name}");
        made(&mut two);
        let patch = json!({"metadata": metadata, "data": {"k": "2"}});
        assert_eq!(code(two.merge(&key("a"), &patch, US)), expected, "merge, {name}");
        made(&mut three);
        assert_eq!(code(three.apply(&key("a"), whole, US, true)), expected, "apply, {name}");
    }
    let mut named = config_map("b");
    named["metadata"]["uid"] = json!("x");
    assert_eq!(code(store().apply(&key("b"), named, US, true)), (409, "Conflict"), "one that is gone isn't made anew");
    assert_eq!(code(store().merge(&key("b"), &json!({}), US)), (404, "NotFound"));
}

#[test]
fn a_deleted_object_stays_while_a_finalizer_holds_it() {
    let mut store = store();
    let mut held = config_map("a");
    held["metadata"]["finalizers"] = json!(["x.org/held"]);
    let made = store.create("configmaps", held, US).unwrap();
    assert_eq!(code(store.delete(&key("a"), &DeleteOptions::of("another"))), (409, "Conflict"));
    let marked = store.delete(&key("a"), &DeleteOptions::of(text(&made, "/metadata/uid"))).unwrap().unwrap();
    assert!(deleting(&marked));
    store.merge(&key("a"), &json!({"metadata": {"finalizers": null}}), US).unwrap();
    assert!(store.get(&key("a")).is_none());
    let told: Vec<_> = store.events_after(0).unwrap().map(|event| event.change).collect();
    assert_eq!(told, [Change::Added, Change::Modified, Change::Deleted]);
    assert_eq!(code(store.delete(&key("a"), &DeleteOptions::default())), (404, "NotFound"));
}

#[test]
fn a_pod_on_a_node_gets_its_grace() {
    let pod = |node: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 5, "containers": [{"name": "c"}]}})
    };
    let id = Key::new("pods", "n", "a");
    let mut store = store();
    let made = store.create("pods", pod(json!("node1")), US).unwrap();
    let uid = text(&made, "/metadata/uid");
    let marked = store.delete(&id, &DeleteOptions::of(uid)).unwrap().unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2027-01-15T08:00:05Z");
    assert!(store.delete(&id, &DeleteOptions::of(uid)).unwrap().is_some(), "asking again ends nothing");
    assert_eq!(store.delete(&id, &DeleteOptions::force(uid)).unwrap(), None, "by force it is gone");
    store.create("pods", pod(Value::Null), US).unwrap();
    assert_eq!(store.delete(&id, &DeleteOptions::default()).unwrap(), None, "on no node there is nothing to wait for");
}

#[test]
fn status_and_spec_have_each_their_writer() {
    let mut store = store();
    store.create("customresourcedefinitions.apiextensions.k8s.io", definition(), US).unwrap();
    let id = Key::new("things.x.org", "n", "a");
    let mut with_status = thing(1);
    with_status["status"] = json!({"phase": "x"});
    let made = store.create("things.x.org", with_status.clone(), US).unwrap();
    assert_eq!((made.get("status"), &made["metadata"]["generation"]), (None, &json!(1)));
    let told = store.merge(&id, &json!({"spec": {"members": 9}, "status": {"phase": "y"}}), Manner::status_by("us")).unwrap();
    assert_eq!((&told["spec"]["members"], &told["status"]["phase"]), (&json!(1), &json!("y")));
    assert_eq!(told["metadata"]["generation"], 1, "a status is no change of what is wanted");
    let mut whole = (*told).clone();
    whole["spec"]["members"] = json!(2);
    whole["status"] = json!({"phase": "z"});
    let changed = store.replace(&id, whole, US).unwrap();
    assert_eq!((&changed["status"]["phase"], &changed["metadata"]["generation"]), (&json!("y"), &json!(2)));
    assert_eq!(code(store.replace(&id, thing(3), US)), (422, "Invalid"), "a PUT names its version");
}

#[test]
fn unknown_fields_are_refused_or_dropped() {
    let mut store = store();
    store.create("customresourcedefinitions.apiextensions.k8s.io", definition(), US).unwrap();
    let mut odd = thing(1);
    odd["spec"]["membrs"] = json!(2);
    let strict = Manner { unknown: Unknown::Strict, ..US };
    assert_eq!(code(store.create("things.x.org", odd.clone(), strict)), (400, "BadRequest"));
    let made = store.create("things.x.org", odd, US).unwrap();
    assert_eq!(made["spec"], json!({"members": 1}));
    assert_eq!(code(store.create("things.x.org", thing(1), US)), (409, "AlreadyExists"));
    let mut wrong = thing(1);
    wrong["metadata"]["name"] = json!("b");
    wrong["spec"]["members"] = json!("one");
    assert_eq!(code(store.create("things.x.org", wrong, US)), (422, "Invalid"));
}

#[test]
fn forgotten_changes_are_said_to_be_forgotten() {
    let mut store = store();
    store.create("configmaps", config_map("a"), US).unwrap();
    store.create("configmaps", config_map("b"), US).unwrap();
    assert_eq!(store.events_after(1).unwrap().count(), 1);
    store.compact();
    assert_eq!(code(store.events_after(1).map(drop)), (410, "Expired"));
    assert_eq!(store.events_after(2).unwrap().count(), 0);
}
