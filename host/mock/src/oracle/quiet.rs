//! Rest: once the declared state is reached and nothing happens any more, the operator asks the API server for no change; and
//! whatever happens, it doesn't ask for the same again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use vko_apiserver::requests::Request;

use super::{Oracle, Violation};

/// What time asks for and no instance: the Lease's renewals.
const OF_TIME: [&str; 1] = ["leases.coordination.k8s.io"];
/// So many requests for one object within [`WHILE`] are a storm. A creation asks for five of the topology object a second.
const STORM: usize = 100;
const WHILE: Duration = Duration::from_secs(10);

/// A request, and when it was seen.
pub type Seen = (Duration, Request);

/// Requests for a change that an operator at rest doesn't make.
pub fn unrest(requests: &[Seen]) -> Vec<&Request> {
    requests.iter().map(|(_, request)| request).filter(|request| !is_of_time(request)).collect()
}

/// Objects that were asked for again and again.
pub fn storms(requests: &[Seen]) -> Vec<Violation> {
    let mut by_object: BTreeMap<(&str, &str, &str), Vec<Duration>> = BTreeMap::new();
    for (at, request) in requests.iter().filter(|(_, request)| !is_of_time(request)) {
        by_object.entry((request.verb, &request.key.resource, &request.key.name)).or_default().push(*at);
    }
    let storm = |((verb, resource, name), times): ((&str, &str, &str), Vec<Duration>)| {
        let most = times.iter().map(|from| times.iter().filter(|at| (*from..*from + WHILE).contains(at)).count()).max()?;
        let seen = || format!("{verb} of {resource} {name} was asked for {most} times within {WHILE:?}");
        (most >= STORM).then(|| Violation::new(Oracle::Storm, seen()))
    };
    by_object.into_iter().filter_map(storm).collect()
}

/// How often what was asked for.
pub fn summed(requests: &[Seen]) -> BTreeMap<String, usize> {
    let mut sums = BTreeMap::new();
    for (_, request) in requests.iter().filter(|(_, request)| !is_of_time(request)) {
        *sums.entry(format!("{} {}", request.verb, request.key.resource)).or_default() += 1;
    }
    sums
}

fn is_of_time(request: &Request) -> bool {
    OF_TIME.contains(&request.key.resource.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vko_apiserver::Key;

    fn request(resource: &str, code: u16) -> Request {
        Request { client: "operator-0".into(), verb: "apply", key: Key::new(resource, "default", "x"), code }
    }

    #[test]
    fn unrest_by_table() {
        for (case, resource, code, expected) in [
            ("an apply", "statefulsets.apps", 200, 1),
            ("a refused one", "statefulsets.apps", 409, 1),
            ("an event", "events.events.k8s.io", 201, 1),
            ("the Lease", "leases.coordination.k8s.io", 200, 0),
        ] {
            assert_eq!(unrest(&[(Duration::ZERO, request(resource, code))]).len(), expected, "{case}");
        }
    }

    #[test]
    fn storms_by_table() {
        let requests = |resource: &str, count: u64, every_ms: u64| -> Vec<Seen> {
            (0..count).map(|number| (Duration::from_millis(number * every_ms), request(resource, 200))).collect()
        };
        for (case, requests, expected) in [
            ("ten a second for ten seconds", requests("pods", 100, 99), 1),
            ("ten a second for five seconds", requests("pods", 50, 100), 0),
            ("one a second for long", requests("pods", 500, 1000), 0),
            ("the Lease", requests("leases.coordination.k8s.io", 500, 10), 0),
        ] {
            assert_eq!(storms(&requests).len(), expected, "{case}");
        }
    }
}
