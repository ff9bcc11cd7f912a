//! Passwords are made once.

use serde_json::json;
use vko_api::names;
use vko_model::accounts::{Account, ServerRole};

use super::{Accounts, AccountsError};
use crate::object::{Kind, ObjectId};
use crate::render::{Topology, TopologyKind};
use crate::testing::{FakeWorld, State, mk_topology};
use crate::world::{ApiError, Credential};

/// A change of a Secret's metadata.
type Change = fn(&mut serde_json::Value);

fn secret(account: Account) -> ObjectId {
    ObjectId::new(Kind::Secret, "shop", names::account_secret(names::component::FAILOVER, "x", account.name()))
}

fn stored(data: serde_json::Value) -> serde_json::Value {
    let name = secret(Account::Operator).name;
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"}, "data": data})
}

/// Another operator makes the operator's Secret: its password is "theirs".
fn somebody_is_faster(state: &mut State) {
    state.put(stored(json!({"password": "dGhlaXJz"})));
}

#[tokio::test]
async fn each_is_made_once_and_then_found() {
    let world = FakeWorld::default();
    let made = Accounts::ensure(&world, &mk_topology()).await.unwrap();
    assert_eq!(world.effects().len(), Account::of(ServerRole::Replica).len());
    let found = Accounts::ensure(&world, &mk_topology()).await.unwrap();
    assert_eq!((world.effects().len(), &found), (0, &made));
    assert_eq!(made.operator().password.reveal().len(), super::LENGTH);
    assert!(made.operator().password.reveal().bytes().all(|byte| super::ALPHABET.contains(&byte)));
}

#[tokio::test]
async fn what_a_secret_is_found_and_kept_by_is_set_back() {
    let id = secret(Account::Probe);
    let table: &[(&str, Change, bool)] = &[
        ("nothing was changed", |_| {}, false),
        ("the instance's label is gone", |m| drop(m["labels"].as_object_mut().unwrap().remove(names::INSTANCE)), true),
        ("the finalizer is gone, and another's is there", |m| m["finalizers"] = json!(["example.org/held"]), true),
        ("it has no owner", |m| drop(m.as_object_mut().unwrap().remove("ownerReferences")), true),
        ("a former topology object's", |m| m["ownerReferences"][0]["uid"] = json!("before"), true),
        ("a label of others", |m| m["labels"]["example.org/team"] = json!("a"), false),
        (
            "it is being deleted",
            |m| *m = json!({"name": m["name"], "namespace": "shop", "deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["example.org/held"]}),
            false,
        ),
    ];
    for (case, change, patched) in table {
        let world = FakeWorld::default();
        Accounts::ensure(&world, &mk_topology()).await.unwrap();
        let made = world.object(&id).unwrap();
        let mut object = made.clone();
        change(&mut object["metadata"]);
        world.state().put(object);
        world.effects();
        Accounts::ensure(&world, &mk_topology()).await.unwrap();
        assert_eq!(world.effects().len(), usize::from(*patched), "{case}");
        let now = world.object(&id).unwrap();
        assert_eq!(now["data"], made["data"], "{case}");
        if *patched {
            assert_eq!(now["metadata"]["labels"], made["metadata"]["labels"], "{case}");
            assert_eq!(now["metadata"]["ownerReferences"], made["metadata"]["ownerReferences"], "{case}");
            assert!(now["metadata"]["finalizers"].to_string().contains(names::SECRET_FINALIZER), "{case}");
        }
    }
}

#[tokio::test]
async fn what_the_cache_lacks_is_read_before_it_is_made() {
    let world = FakeWorld::default();
    let made = Accounts::ensure(&world, &mk_topology()).await.unwrap();
    world.effects();
    for account in Account::of(ServerRole::Replica).iter().copied() {
        world.state().stale.insert(secret(account), None);
    }
    assert_eq!(Accounts::ensure(&world, &mk_topology()).await.unwrap(), made);
    assert_eq!(world.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn of_two_that_make_it_at_once_one_wins_and_both_use_it() {
    let world = FakeWorld::default();
    let name = secret(Account::Operator).name;
    world.state().before.push((format!("create Secret {name}"), somebody_is_faster));
    let accounts = Accounts::ensure(&world, &mk_topology()).await.unwrap();
    assert_eq!(accounts.operator().password.reveal(), "theirs");
}

#[tokio::test]
async fn a_secret_without_a_password_is_named_and_not_written_over() {
    for data in [json!({}), json!({"password": ""}), json!({"password": "AAo="}), json!({"password": "no base64!"})] {
        let world = FakeWorld::default();
        world.state().put(stored(data));
        let error = Accounts::ensure(&world, &mk_topology()).await.unwrap_err();
        assert_eq!(error, AccountsError::PasswordMissing(secret(Account::Operator).name));
        assert!(!world.effects().iter().any(|effect| effect.ends_with(&secret(Account::Operator).name)));
    }
}

#[tokio::test]
async fn a_refusal_names_the_secret() {
    let world = FakeWorld::default();
    world.state().refusals.push(("create".into(), ApiError::Forbidden("no".into())));
    let error = Accounts::ensure(&world, &mk_topology()).await.unwrap_err();
    assert_eq!(error.reason(), "SecretNotMade");
    assert!(error.to_string().contains("failover-acl-x-"), "{error}");
}

#[tokio::test]
async fn user_lines_hold_hashes_only() {
    let accounts = Accounts::ensure(&FakeWorld::default(), &mk_topology()).await.unwrap();
    let lines = accounts.users_acl(ServerRole::Replica, "9.1".parse().unwrap()).unwrap();
    assert_eq!(lines.lines().count(), Account::of(ServerRole::Replica).len());
    let password = accounts.operator().password;
    assert!(lines.contains(&password.acl_hash()) && !lines.contains(password.reveal()));
}

fn mk(kind: TopologyKind, spec: serde_json::Value) -> Topology {
    Topology { kind, spec, ..mk_topology() }
}

fn watched(section: serde_json::Value) -> Topology {
    mk(TopologyKind::Failover, json!({ "sentinel": section }))
}

/// A Secret of a person's, with the password "theirs".
fn give(world: &FakeWorld, name: &str) {
    let metadata = json!({"name": name, "namespace": "shop"});
    let data = json!({"password": "dGhlaXJz"});
    world.state().put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}));
}

#[tokio::test]
async fn each_kind_has_its_accounts_and_names() {
    let data = ["operator", "replication", "hook", "probe", "default"];
    let all = ["operator", "replication", "hook", "probe", "sentinel", "default"];
    for (case, topology, component, accounts) in [
        ("replica", mk_topology(), "failover", &data[..]),
        ("cluster", mk(TopologyKind::Cluster, json!({})), "cluster", &data[..]),
        ("own Sentinels", watched(json!({})), "failover", &all[..]),
        ("Sentinels elsewhere", watched(json!({ "sentinelReference": {} })), "failover", &all[..]),
        ("alone", mk(TopologyKind::Sentinel, json!({})), "failover", &["operator", "hook", "probe", "sentinel"][..]),
    ] {
        let world = FakeWorld::default();
        let made = Accounts::ensure(&world, &topology).await.unwrap();
        let expected: Vec<_> =
            accounts.iter().map(|account| format!("create Secret {}", names::account_secret(component, "x", account))).collect();
        assert_eq!(world.effects(), expected, "{case}");
        let mut named: Vec<_> = made.credentials().into_keys().collect();
        let mut sorted = accounts.to_vec();
        named.sort();
        sorted.sort_unstable();
        assert_eq!(named, sorted, "{case}");
    }
}

#[tokio::test]
async fn who_needs_which_password_on_which_server() {
    let line = "9.1".parse().unwrap();
    let default = |acl: &str| acl.lines().find(|line| line.starts_with("user default ")).unwrap().to_owned();
    let guarded = json!({ "access": { "defaultPasswordSecret": "clients" } });
    for (open_data, section, sentinels) in [
        (false, json!({}), "on nopass"),
        (true, json!({}), "on nopass"),
        (true, guarded.clone(), "on #"),
        (false, guarded, "on #"),
    ] {
        let world = FakeWorld::default();
        give(&world, "clients");
        let mut topology = watched(section);
        topology.spec["access"] = json!({ "openDefaultUser": open_data });
        let accounts = Accounts::ensure(&world, &topology).await.unwrap();
        let data = default(&accounts.users_acl(ServerRole::Failover, line).unwrap());
        assert!(data.contains(if open_data { "on nopass" } else { "on #" }), "{data}");
        let found = default(&accounts.users_acl(ServerRole::Sentinel, line).unwrap());
        assert!(found.contains(sentinels), "{found}");
        let given = crate::secret::Secret::new("theirs").acl_hash();
        assert_eq!((found.contains(&given), data.contains(&given)), (sentinels == "on #", false));
    }
}

#[tokio::test]
async fn a_persons_secret_that_is_missing_holds_up_only_what_needs_it() {
    let world = FakeWorld::default();
    let topology = watched(json!({ "access": { "defaultPasswordSecret": "clients" } }));
    let accounts = Accounts::ensure(&world, &topology).await.unwrap();
    let line = "9.1".parse().unwrap();
    assert!(accounts.users_acl(ServerRole::Failover, line).is_ok());
    let error = accounts.users_acl(ServerRole::Sentinel, line).unwrap_err();
    assert_eq!(error, AccountsError::PasswordNotGiven("clients".into()));
    assert!(!world.effects().iter().any(|effect| effect.ends_with("clients")), "a person's Secret is never made");
}

#[tokio::test]
async fn sentinels_elsewhere_are_logged_in_to_as_people_say() {
    let login = |auth: serde_json::Value| watched(json!({ "sentinelReference": { "auth": auth } }));
    let missing = AccountsError::PasswordNotGiven("absent".into());
    for (topology, expected) in [
        (mk_topology(), Ok(None)),
        (watched(json!({ "sentinelReference": {} })), Ok(None)),
        (login(json!({})), Ok(None)),
        (login(json!({ "username": "u" })), Ok(None)),
        (login(json!({ "passwordSecret": "shared" })), Ok(Some("default"))),
        (login(json!({ "username": "u", "passwordSecret": "shared" })), Ok(Some("u"))),
        (login(json!({ "passwordSecret": "absent" })), Err(missing)),
    ] {
        let world = FakeWorld::default();
        give(&world, "shared");
        let found = Accounts::ensure(&world, &topology).await.unwrap().elsewhere();
        let expected = expected.map(|user: Option<&str>| {
            user.map(|user| Credential { user: user.into(), password: crate::secret::Secret::new("theirs") })
        });
        assert_eq!(found, expected, "{}", topology.spec);
    }
}
