//! What pods mount: the ConfigMap of the servers, the Secret with the `user` lines, and an account's own Secret.

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::StartMode;

use super::metadata::object;
use super::volume::USERS_ACL;
use super::{Inputs, Topology};
use crate::object::Kind;
use crate::secret::Secret;

/// Configuration without secrets, how a server starts, and whether the instance is ending.
pub(super) fn config_map(topology: &Topology, inputs: &Inputs<'_>) -> Value {
    let mut map = object(topology, Kind::ConfigMap, &names::data_workload(&topology.name));
    map["data"] = json!({
        "valkey.conf": inputs.conf,
        "start": match inputs.start {
            StartMode::Alone => "alone",
            StartMode::Named => "named",
        },
        "ending": if inputs.ending { "yes" } else { "no" },
    });
    map
}

/// The `user` lines, hashes only.
pub(super) fn users_secret(topology: &Topology, users_acl: &str) -> Value {
    let mut secret = object(topology, Kind::Secret, &names::data_users(&topology.name));
    secret["data"] = json!({ USERS_ACL: base64(users_acl) });
    secret
}

/// An account's Secret, for `create` and never for `apply`: a password that exists is never written over. The finalizer keeps it
/// while the instance lives.
///
/// The result holds the password (base64): it goes to the API server and nowhere else.
pub fn account_secret(topology: &Topology, account: &str, password: &Secret) -> Value {
    let mut secret = object(topology, Kind::Secret, &names::account_secret(names::component::FAILOVER, &topology.name, account));
    secret["metadata"]["finalizers"] = json!([names::SECRET_FINALIZER]);
    secret["data"] = json!({ "username": base64(account), "password": base64(password.reveal()) });
    secret
}

fn base64(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_inputs, mk_topology};
    use super::*;

    #[test]
    fn the_mounted_files_say_how_to_start_and_whether_to_hand_over() {
        for (start, text) in [(StartMode::Alone, "alone"), (StartMode::Named, "named")] {
            for (ending, word) in [(false, "no"), (true, "yes")] {
                let map = config_map(&mk_topology(), &Inputs { start, ending, ..mk_inputs() });
                assert_eq!(map["data"], json!({ "valkey.conf": mk_inputs().conf, "start": text, "ending": word }));
            }
        }
    }

    #[test]
    fn an_accounts_secret_holds_name_and_password_and_is_kept() {
        let secret = account_secret(&mk_topology(), "probe", &Secret::new("foobar"));
        assert_eq!(secret["metadata"]["name"], "failover-acl-demo-probe-secret");
        assert_eq!(secret["metadata"]["finalizers"], json!([names::SECRET_FINALIZER]));
        assert_eq!(secret["data"], json!({ "username": "cHJvYmU=", "password": "Zm9vYmFy" }));
    }
}
