//! What pods mount: the configuration and the `user` lines of a part, and an account's own Secret.

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use vko_api::names;
use vko_wit::planning::StartMode;

use super::metadata::object;
use super::volume::USERS_ACL;
use super::{Inputs, Part, Texts, Topology};
use crate::object::Kind;
use crate::secret::Secret;
use crate::settings::Settings;

/// Configuration without secrets, and what the agent is told beside it:
/// - `start`: how a data server starts. A cluster's server starts by its own nodes.conf, a Sentinel by its file.
/// - `ending`: whether the instance is ending, for the hooks.
/// - `sentinels`: who moves the primary's role, where Sentinels do.
pub(super) fn config_map(topology: &Topology, part: Part, inputs: &Inputs<'_>, settings: &Settings) -> Value {
    let mut map = object(topology, shared(part), Kind::ConfigMap, &part.config_map(&topology.name));
    let conf = texts(part, inputs).conf;
    let ending = if inputs.ending { "yes" } else { "no" };
    map["data"] = match part {
        Part::Data => json!({ "valkey.conf": conf, "start": start(inputs.start), "ending": ending }),
        Part::Shard(_) => json!({ "valkey.conf": conf, "ending": ending }),
        Part::Sentinels => json!({ "sentinel.conf": conf }),
    };
    if part == Part::Data && topology.watched().is_some() {
        map["data"]["sentinels"] = json!(sentinels(topology, settings));
    }
    map
}

fn start(mode: StartMode) -> &'static str {
    match mode {
        StartMode::Alone => "alone",
        StartMode::Named => "named",
    }
}

/// The Sentinels that the hook may ask, a line `HOST PORT NAME` for each: NAME is what they call the data set. Own Sentinels are
/// one line, by the Service that names them all, so that their number is in no file; its dot at the end spares a resolver its
/// search list. Where people give a login for Sentinels elsewhere, its user follows (`HOST PORT NAME USER`), and the password is
/// mounted beside the accounts'.
fn sentinels(topology: &Topology, settings: &Settings) -> String {
    let monitor = topology.monitor();
    let Some(reference) = topology.referenced() else {
        let service = names::sentinel_workload(&topology.name);
        let port = names::SENTINEL_PORT;
        return format!("{service}.{}.svc.{}. {port} {monitor}\n", topology.namespace, settings.cluster_domain);
    };
    let user = topology.login_elsewhere().map(|login| format!(" {}", login.user)).unwrap_or_default();
    let nodes = reference.get("nodes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let address = |node: &Value| Some((node.get("ip")?.as_str()?.to_owned(), node.get("port")?.as_u64()?));
    nodes.iter().filter_map(address).map(|(ip, port)| format!("{ip} {port} {monitor}{user}\n")).collect()
}

/// The `user` lines, hashes only.
pub(super) fn users_secret(topology: &Topology, part: Part, inputs: &Inputs<'_>) -> Value {
    let mut secret = object(topology, shared(part), Kind::Secret, &part.users(&topology.name));
    secret["data"] = json!({ USERS_ACL: base64(texts(part, inputs).users_acl) });
    secret
}

fn texts<'a>(part: Part, inputs: &Inputs<'a>) -> Texts<'a> {
    match part {
        Part::Data | Part::Shard(_) => inputs.data,
        Part::Sentinels => inputs.sentinels,
    }
}

/// Whose labels an object has that pods of the part mount: all shards mount the same.
fn shared(part: Part) -> Option<Part> {
    Some(part).filter(|part| !matches!(part, Part::Shard(_)))
}

/// An account's Secret, for `create` and never for `apply`: a password that exists is never written over. The finalizer keeps it
/// while the instance lives.
///
/// The result holds the password (base64): it goes to the API server and nowhere else.
pub fn account_secret(topology: &Topology, account: &str, password: &Secret) -> Value {
    let name = names::account_secret(topology.kind.component(), &topology.name, account);
    let mut secret = object(topology, None, Kind::Secret, &name);
    secret["metadata"]["finalizers"] = json!([names::SECRET_FINALIZER]);
    secret["data"] = json!({ "username": base64(account), "password": base64(password.reveal()) });
    secret
}

fn base64(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mk_cluster, mk_failover, mk_inputs, mk_referring, mk_sentinel, mk_settings, mk_topology};
    use super::*;

    fn data(topology: &Topology, part: Part, inputs: &Inputs<'_>) -> Value {
        config_map(topology, part, inputs, &mk_settings())["data"].clone()
    }

    #[test]
    fn the_mounted_files_say_how_to_start_and_whether_to_hand_over() {
        for (start, text) in [(StartMode::Alone, "alone"), (StartMode::Named, "named")] {
            for (ending, word) in [(false, "no"), (true, "yes")] {
                let inputs = Inputs { start, ending, ..mk_inputs() };
                let conf = inputs.data.conf;
                let expected = json!({ "valkey.conf": conf, "start": text, "ending": word });
                assert_eq!(data(&mk_topology(), Part::Data, &inputs), expected);
                assert_eq!(data(&mk_cluster(), Part::Shard(1), &inputs), json!({ "valkey.conf": conf, "ending": word }));
                for topology in [mk_failover(), mk_sentinel()] {
                    let expected = json!({ "sentinel.conf": inputs.sentinels.conf });
                    assert_eq!(data(&topology, Part::Sentinels, &inputs), expected);
                }
            }
        }
    }

    #[test]
    fn the_hook_is_told_which_sentinels_know_the_data_set_and_as_what() {
        for (topology, expected) in [
            (mk_failover(), "rfs-demo.shop.svc.cluster.local. 26379 mymaster\n"),
            (mk_referring(), "10.0.0.1 26379 shop.demo\n10.0.0.2 26380 shop.demo\nfd00::3 26379 shop.demo\n"),
        ] {
            assert_eq!(data(&topology, Part::Data, &mk_inputs())["sentinels"], expected);
        }
        let mut login = mk_referring();
        login.spec["sentinel"]["sentinelReference"]["auth"] = json!({ "username": "u", "passwordSecret": "theirs" });
        let lines = data(&login, Part::Data, &mk_inputs())["sentinels"].as_str().unwrap().to_owned();
        assert!(lines.lines().all(|line| line.ends_with(" shop.demo u")), "{lines}");
    }

    #[test]
    fn data_servers_and_sentinels_have_their_own_accounts() {
        let inputs = mk_inputs();
        for (topology, part, name, acl) in [
            (mk_topology(), Part::Data, "rfr-acl-demo", inputs.data.users_acl),
            (mk_cluster(), Part::Shard(2), "drc-acl-demo", inputs.data.users_acl),
            (mk_failover(), Part::Data, "rfr-acl-demo", inputs.data.users_acl),
            (mk_failover(), Part::Sentinels, "rfs-acl-demo", inputs.sentinels.users_acl),
            (mk_sentinel(), Part::Sentinels, "rfs-acl-demo", inputs.sentinels.users_acl),
        ] {
            let secret = users_secret(&topology, part, &inputs);
            assert_eq!(secret["metadata"]["name"], name);
            assert_eq!(secret["data"][USERS_ACL], json!(base64(acl)), "{name}");
        }
    }

    #[test]
    fn an_accounts_secret_holds_name_and_password_and_is_kept() {
        for (topology, name) in [
            (mk_topology(), "failover-acl-demo-probe-secret"),
            (mk_failover(), "failover-acl-demo-probe-secret"),
            (mk_sentinel(), "failover-acl-demo-probe-secret"),
            (mk_cluster(), "cluster-acl-demo-probe-secret"),
        ] {
            let secret = account_secret(&topology, "probe", &Secret::new("foobar"));
            assert_eq!(secret["metadata"]["name"], name);
            assert_eq!(secret["metadata"]["finalizers"], json!([names::SECRET_FINALIZER]));
            assert_eq!(secret["data"], json!({ "username": "cHJvYmU=", "password": "Zm9vYmFy" }));
        }
    }
}
