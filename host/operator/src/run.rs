//! `run`: the operator against a cluster, until it is told to stop. [`vko_run`] wires it.
//!
//! # Guarantees
//! The process never outlives a part of the operator: it ends with an error, and its pod starts anew.
//!
//! # Flow
//! 1. Settings.
//! 2. Connect, start the watches.
//! 3. Compile the built-in policies.
//! 4. HTTP.
//! 5. Run, until SIGTERM or SIGINT.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::StatusCode;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use vko_api::images::Images;
use vko_core::manager::Journals;
use vko_core::object::Kind;
use vko_core::world::{Kube, World};
use vko_kube::{KubeWorld, Options};
use vko_run::{Policies, Setup, Wired};

use crate::args::RunOptions;
use crate::http::{self, Answer};
use crate::metrics;

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
    let world = vko_run::world(kube);
    #[cfg(feature = "faults")]
    let world = vko_core::faulty::faulty(world, Arc::new(vko_core::faulty::Faults::new(options.die_after, killed)));
    serve(options, images, Arc::new(world), requests).await
}

/// Ends the process as SIGKILL does, with the code that a shell reports for it.
#[cfg(feature = "faults")]
fn killed() {
    std::process::exit(137);
}

async fn serve<W: World>(options: RunOptions, images: Images, world: Arc<W>, requests: KubeWorld) -> anyhow::Result<()> {
    let policies = tokio::task::spawn_blocking(Policies::built_in).await??;
    let setup = Setup {
        pod: options.pod_name,
        namespace: options.pod_namespace,
        lease: options.lease_name,
        image: options.operator_image,
        cluster_domain: options.cluster_domain,
        probe_interval: Duration::from_millis(options.probe_interval_ms),
        images,
    };
    let wired = Wired::new(world.clone(), setup, policies);
    tokio::spawn(http::serve(options.metrics_address, metrics::page(wired.metrics(), requests)).await?);
    tokio::spawn(http::serve(options.health_address, health_page(world)).await?);
    tokio::spawn(http::serve(options.journal_address, journal_page(wired.journals())).await?);
    let mut operator = wired.start();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the operator runs");
    tokio::select! {
        asked = stop_signal() => asked?,
        ended = operator.ended() => return Err(ended.into()),
    }
    tracing::info!("stopping: instances first, then the Lease");
    operator.stop().await?;
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
        let Some(lines) = vko_run::journal(&journals, namespace, name) else {
            return (
                StatusCode::NOT_FOUND,
                format!("this operator looks after no {namespace}/{name}; ask the one that holds the Lease\n"),
            );
        };
        (StatusCode::OK, lines.join("\n") + "\n")
    })
}
