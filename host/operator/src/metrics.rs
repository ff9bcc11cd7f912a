//! The metrics page: the core's metrics, and the requests that the API server got from this process.

use std::sync::Arc;

use hyper::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use vko_core::metrics::Metrics;
use vko_kube::KubeWorld;

use crate::http::Answer;
use crate::run::not_found;

/// Labels of a request: from the closed lists of verbs, kinds and outcomes.
type Labels = Vec<(&'static str, &'static str)>;

/// Serves /metrics.
pub(crate) fn page(metrics: &Metrics, requests: KubeWorld) -> Answer {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    Arc::new(move |path| {
        if path != "/metrics" {
            return not_found();
        }
        let mut text = String::new();
        let encoded = encode(&mut text, &counted(&requests)).map(|()| text.truncate(text.trim_end_matches("# EOF\n").len()));
        match encoded.and_then(|()| encode(&mut text, &registry)) {
            Ok(()) => (StatusCode::OK, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    })
}

/// The counts as they are at this scrape.
fn counted(requests: &KubeWorld) -> Registry {
    let family = Family::<Labels, Counter>::default();
    for count in requests.requests() {
        let labels = vec![("verb", count.verb), ("kind", count.kind.name()), ("outcome", count.outcome)];
        family.get_or_create(&labels).inc_by(count.count);
    }
    let mut registry = Registry::default();
    registry.register("valkey_operator_api_requests", "Requests to the API server by verb, kind and outcome", family);
    registry
}
