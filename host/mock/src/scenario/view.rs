//! The store as scripts look at it.

use serde_json::Value;
use vko_apiserver::{Key, Store};
use vko_script::View;

use crate::bed::{NAMESPACE, OPERATORS};

/// The store's objects in [`NAMESPACE`].
pub struct Here<'a>(pub &'a Store);

impl View for Here<'_> {
    fn get(&self, resource: &str, name: &str) -> Option<&Value> {
        self.0.get(&Key::new(resource, NAMESPACE, name)).map(|object| &**object)
    }

    fn all(&self, resource: &'static str) -> Vec<&Value> {
        self.0.list(resource, Some(NAMESPACE)).map(|(_, object)| &**object).collect()
    }
}

/// Whether that operator holds the Lease.
pub(super) fn leads(store: &Store, operator: &str) -> bool {
    let lease = store.get(&Key::new("leases.coordination.k8s.io", OPERATORS, "valkey-operator"));
    let holder = lease.and_then(|lease| lease.pointer("/spec/holderIdentity")?.as_str().map(str::to_owned));
    // What follows its name is this life's.
    holder.and_then(|holder| holder.strip_prefix(operator).map(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())))
        == Some(true)
}
