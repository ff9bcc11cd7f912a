//! `run`: wires the world, the Lease, the policies and the manager.
//!
//! # Guarantees
//! 1. The Lease is released only when nothing dangerous is under way.
//! 2. The process never outlives a part of itself: without its manager it would hold the Lease, look healthy and do nothing.
//!
//! # Flow
//! 1. Settings.
//! 2. Connect, start the watches.
//! 3. Compile the built-in policies.
//! 4. HTTP.
//! 5. Elector and manager side by side.
//! 6. If one of the two ends by itself, the process ends with an error, and its pod starts anew.
//! 7. On SIGTERM the manager drops its instances first; then nothing dangerous is under way, and the Lease is released.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::StatusCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing_subscriber::EnvFilter;
use vko_api::images::Images;
use vko_core::composite::Composite;
use vko_core::instance::{Key, Shared};
use vko_core::lease::{Elector, LeaseOptions};
use vko_core::manager::{Journals, Manager};
use vko_core::metrics::Metrics;
use vko_core::object::Kind;
use vko_core::registry::Registry;
use vko_core::settings::Settings;
use vko_core::world::{Kube, World};
use vko_engine::Engine;
use vko_kube::{KubeWorld, Options, SystemClock};
use vko_valkey::Administration;

use crate::args::RunOptions;
use crate::http::{self, Answer};
use crate::{metrics, policies};

/// Runs the operator until SIGTERM or SIGINT.
pub(crate) async fn run(options: RunOptions) -> anyhow::Result<()> {
    log(options.log_json);
    let images = images(&options)?;
    let kube = KubeWorld::connect(&Options {
        namespace: Some(options.watch_namespace.clone()).filter(|namespace| !namespace.is_empty()),
        operator_namespace: options.pod_namespace.clone(),
        pod: options.pod_name.clone(),
    })
    .await?;
    let requests = kube.clone();
    let world = Composite { kube, servers: Administration::new(), clock: SystemClock::default() };
    #[cfg(feature = "faults")]
    let world = crate::faults::mortal(world, options.die_after);
    serve(options, images, Arc::new(world), requests).await
}

async fn serve<W: World>(options: RunOptions, images: Images, world: Arc<W>, requests: KubeWorld) -> anyhow::Result<()> {
    let lease = LeaseOptions {
        namespace: options.pod_namespace.clone(),
        name: options.lease_name.clone(),
        identity: LeaseOptions::identity(&options.pod_name, &*world),
    };
    let settings = Settings {
        operator_version: env!("CARGO_PKG_VERSION").into(),
        agent_image: options.operator_image.clone(),
        cluster_domain: options.cluster_domain.clone(),
        operator_namespace: options.pod_namespace.clone(),
        identity: lease.identity.clone(),
        probe_interval: Duration::from_millis(options.probe_interval_ms),
    };
    let engine = Arc::new(Engine::new()?);
    let compiling = engine.clone();
    let built_in = tokio::task::spawn_blocking(move || policies::built_in(&compiling)).await??;
    let (elector, state) = Elector::new(world.clone(), lease);
    let shared = Arc::new(Shared {
        world: world.clone(),
        settings: Arc::new(settings),
        images: Arc::new(images),
        lease: state,
        registry: Arc::new(Registry::new(built_in)),
        metrics: Metrics::default(),
    });
    let manager = Manager::new(shared.clone(), engine);
    tokio::spawn(http::serve(options.metrics_address, metrics::page(&shared.metrics, requests)).await?);
    tokio::spawn(http::serve(options.health_address, health_page(world)).await?);
    tokio::spawn(http::serve(options.journal_address, journal_page(manager.journals())).await?);
    let (stop, stopping) = watch::channel(false);
    let (at_rest, rested) = tokio::sync::oneshot::channel::<()>();
    let mut electing = tokio::spawn(elector.run(async move {
        // A sender that is gone means that the manager ended: nothing is under way either.
        let _ = rested.await;
    }));
    let mut managing = tokio::spawn(manager.run(stopping));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the operator runs");
    stopped(stop_signal(), &mut managing, &mut electing).await?;
    tracing::info!("stopping: instances first, then the Lease");
    stop.send_replace(true);
    managing.await.context("the manager ended early")?;
    drop(at_rest);
    electing.await.context("the elector ended early")?;
    Ok(())
}

fn log(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // kube's client logs each failed request itself, at error level, beside our own words on it.
    let filter = "kube_client=off".parse().map_or_else(|_| filter.clone(), |directive| filter.clone().add_directive(directive));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    if json { subscriber.json().init() } else { subscriber.with_ansi(false).init() }
}

fn images(options: &RunOptions) -> anyhow::Result<Images> {
    let lines: BTreeMap<String, String> = serde_json::from_str(&options.images)
        .with_context(|| format!("IMAGES is no JSON map of line to image: {:?}", options.images))?;
    Ok(Images {
        registry: options.registry.clone(),
        lines,
        pull_policy: Some(options.image_pull_policy.clone()).filter(|policy| !policy.is_empty()),
        pull_secrets: options
            .image_pull_secrets
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    })
}

/// Waits until the process shall stop.
///
/// # Errors
/// A part of it ended unasked.
async fn stopped(
    signal: impl Future<Output = anyhow::Result<()>>,
    managing: &mut JoinHandle<()>,
    electing: &mut JoinHandle<()>,
) -> anyhow::Result<()> {
    let (part, ended) = tokio::select! {
        asked = signal => return asked,
        ended = managing => ("the manager", ended),
        ended = electing => ("the elector", ended),
    };
    ended.with_context(|| format!("{part} panicked"))?;
    anyhow::bail!("{part} ended unasked; the process ends, to start anew")
}

async fn stop_signal() -> anyhow::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

pub(crate) fn not_found() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "nothing is served here\n".into())
}

/// Ready once the caches are filled, whether it holds the Lease or stands by.
fn health_page<W: World>(world: Arc<W>) -> Answer {
    Arc::new(move |path| match path {
        "/healthz" => (StatusCode::OK, "ok\n".into()),
        "/readyz" => match Kind::INSTANCES
            .into_iter()
            .chain([Kind::Pod, Kind::Secret])
            .find(|kind| Kube::cache_age(&*world, *kind).is_none())
        {
            None => (StatusCode::OK, "ok\n".into()),
            Some(kind) => (StatusCode::SERVICE_UNAVAILABLE, format!("the watch of {} has listed nothing yet\n", kind.plural())),
        },
        _ => not_found(),
    })
}

fn journal_page(journals: Journals) -> Answer {
    Arc::new(move |path| {
        let Some((namespace, name)) = path.strip_prefix("/journal/").and_then(|rest| rest.split_once('/')) else {
            return not_found();
        };
        let key = Key { namespace: namespace.into(), name: name.into() };
        let journal = journals.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).cloned();
        let Some(journal) = journal else {
            return (
                StatusCode::NOT_FOUND,
                format!("this operator looks after no {namespace}/{name}; ask the one that holds the Lease\n"),
            );
        };
        (StatusCode::OK, journal.lines().join("\n") + "\n")
    })
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_process_does_not_outlive_a_part_of_itself() {
        let runs = || tokio::spawn(pending::<()>());
        let ends = || tokio::spawn(ready(()));
        let cases = [
            ("the manager ends", ends(), runs(), "the manager ended unasked"),
            ("the elector ends", runs(), ends(), "the elector ended unasked"),
        ];
        for (name, mut managing, mut electing, expected) in cases {
            let ended = stopped(pending(), &mut managing, &mut electing).await;
            let told = ended.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(told.contains(expected), "{name}: {told}");
        }
    }

    #[tokio::test]
    async fn a_signal_is_no_error() {
        let (mut managing, mut electing) = (tokio::spawn(pending()), tokio::spawn(pending()));
        assert!(stopped(ready(Ok(())), &mut managing, &mut electing).await.is_ok());
    }
}
