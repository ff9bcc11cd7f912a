//! Passwords are made once.

use serde_json::json;
use vko_api::names;
use vko_model::accounts::{Account, ServerRole};

use super::{Accounts, AccountsError};
use crate::object::{Kind, ObjectId};
use crate::testing::{FakeWorld, State, mk_topology};
use crate::world::ApiError;

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
    let lines = accounts.users_acl("9.1".parse().unwrap(), false).unwrap();
    assert_eq!(lines.lines().count(), Account::of(ServerRole::Replica).len());
    let password = accounts.operator().password;
    assert!(lines.contains(&password.acl_hash()) && !lines.contains(password.reveal()));
}
