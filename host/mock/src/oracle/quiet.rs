//! Rest: once the declared state is reached and nothing happens any more, the operator asks the API server for no change.

use vko_apiserver::requests::Request;

/// What time asks for and no instance: the Lease's renewals.
const OF_TIME: [&str; 1] = ["leases.coordination.k8s.io"];

/// Requests for a change that an operator at rest doesn't make.
pub fn unrest<'a>(requests: &'a [Request], client: &str) -> Vec<&'a Request> {
    let ours = |request: &&Request| request.client.starts_with(client) && !OF_TIME.contains(&request.key.resource.as_str());
    requests.iter().filter(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vko_apiserver::Key;

    #[test]
    fn unrest_by_table() {
        for (case, client, resource, code, expected) in [
            ("an apply", "operator-0", "statefulsets.apps", 200, 1),
            ("a refused one", "operator-0", "statefulsets.apps", 409, 1),
            ("an event", "operator-0", "events.events.k8s.io", 201, 1),
            ("the Lease", "operator-0", "leases.coordination.k8s.io", 200, 0),
            ("somebody else", "person", "pods", 200, 0),
        ] {
            let request = Request { client: client.into(), verb: "apply", key: Key::new(resource, "default", "x"), code };
            assert_eq!(unrest(&[request], "operator-").len(), expected, "{case}");
        }
    }
}
