//! What a scene starts from: an instance, its environment and an empty ledger.

use vko_sdk::common::Architecture;
use vko_sdk::observation::{Environment, Instance, IpFamily, LastPrimary, Ledger};

use super::CAPABILITIES;

pub(super) fn instance(name: &str, members: u32) -> Instance {
    Instance {
        namespace: "ns".into(),
        name: name.into(),
        uid: "uid-instance".into(),
        generation: 1,
        architecture: Architecture::Replica,
        kind: "Failover".into(),
        spec: format!(r#"{{"replicas":{members},"storage":null,"version":"9.1"}}"#),
        annotations: Vec::new(),
        status: "{}".into(),
        deleting: false,
        paused: false,
        consents: Vec::new(),
    }
}

pub(super) fn environment() -> Environment {
    Environment {
        operator_version: "0.1.0".into(),
        looking_for: 600_000,
        ip_family: IpFamily::Ipv4,
        cluster_domain: "cluster.local".into(),
        zones: vec!["a".into(), "b".into(), "c".into()],
        capabilities: CAPABILITIES.iter().map(|c| (*c).to_owned()).collect(),
        fence_max_lag: 5_000,
    }
}

pub(super) fn ledger() -> Ledger {
    Ledger {
        formed: Some(false),
        members: Vec::new(),
        lineages: Vec::new(),
        last_primary: LastPrimary::None,
        operations: Vec::new(),
        fences: Vec::new(),
        finished_version: None,
        consents_used: Vec::new(),
    }
}
