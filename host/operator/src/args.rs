//! The command line. Each option can come from the environment, which is how the chart sets them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};

/// Runs Valkey on Kubernetes, or without it on one machine.
#[derive(Parser)]
#[command(name = "valkey-operator", version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the operator.
    Run(Box<RunOptions>),
    /// Run Valkey on this machine, without Kubernetes ('local help' says more).
    #[command(disable_help_flag = true)]
    Local {
        /// What 'valkey-operator-local', the program beside this one, takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Work with policies.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Print the decision journal of an instance: run it in the operator's pod that holds the Lease.
    Journal(JournalOptions),
}

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Begin a policy: a folder with a crate that builds, is tested and conforms, to be changed.
    New(NewOptions),
    /// Try a component on the built-in scenes: the sandbox's bounds, the guard's rules, what each instance needs.
    Test(TestOptions),
    /// Show a component what a live operator decided on, and compare the plans.
    Replay(ReplayOptions),
    /// Make the ConfigMap of a policy's component, on standard output.
    Pack(PackOptions),
}

#[derive(Arguments)]
pub(crate) struct RunOptions {
    /// Name of this pod: in events and in the Lease.
    #[arg(long, env = "POD_NAME", default_value = "valkey-operator")]
    pub(crate) pod_name: String,
    /// Namespace of this pod: its Lease and the policies' ConfigMaps are there.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    pub(crate) pod_namespace: String,
    /// Image of this operator: members' init containers take the agent from it.
    #[arg(long, env = "OPERATOR_IMAGE")]
    pub(crate) operator_image: String,
    /// Server line to image, as JSON.
    #[arg(long, env = "IMAGES", default_value = "{}")]
    pub(crate) images: String,
    /// Registry that replaces those of the images; empty: none.
    #[arg(long, env = "REGISTRY", default_value = "")]
    pub(crate) registry: String,
    /// Pull policy of the servers' images; empty: Kubernetes' default.
    #[arg(long, env = "IMAGE_PULL_POLICY", default_value = "")]
    pub(crate) image_pull_policy: String,
    /// Pull secrets of the servers' images, separated by commas.
    #[arg(long, env = "IMAGE_PULL_SECRETS", default_value = "")]
    pub(crate) image_pull_secrets: String,
    /// DNS domain of the cluster.
    #[arg(long, env = "CLUSTER_DOMAIN", default_value = "cluster.local")]
    pub(crate) cluster_domain: String,
    /// Instances of this namespace only; empty: of all.
    #[arg(long, visible_alias = "namespace", env = "WATCH_NAMESPACE", default_value = "")]
    pub(crate) watch_namespace: String,
    /// Between two questions to a server (milliseconds) while all is quiet and ready; every second otherwise. A Sentinel's word
    /// of a failover doesn't wait for it: all are asked at once then.
    #[arg(long, env = "PROBE_INTERVAL_MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) probe_interval_ms: u64,
    /// Name of the Lease: operators that serve different namespaces side by side need different ones.
    #[arg(long, env = "LEASE_NAME", default_value = "valkey-operator")]
    pub(crate) lease_name: String,
    /// Where metrics are served.
    #[arg(long, env = "METRICS_ADDRESS", default_value = "[::]:8080")]
    pub(crate) metrics_address: SocketAddr,
    /// Where /healthz and /readyz are served.
    #[arg(long, env = "HEALTH_ADDRESS", default_value = "[::]:8081")]
    pub(crate) health_address: SocketAddr,
    /// Where the decision journal is served: on loopback, since it shows what an instance looks like (no passwords are in it).
    #[arg(long, env = "JOURNAL_ADDRESS", default_value = "127.0.0.1:8082")]
    pub(crate) journal_address: SocketAddr,
    /// Log lines as JSON.
    #[arg(long, env = "LOG_JSON")]
    pub(crate) log_json: bool,
    /// End the process after so many effects (writes to the API server, changing commands to servers).
    #[cfg(feature = "faults")]
    #[arg(long, env = "VKO_DIE_AFTER")]
    pub(crate) die_after: Option<u64>,
}

#[derive(Arguments)]
pub(crate) struct NewOptions {
    /// Name of the policy and of the folder: small letters, digits and dashes.
    pub(crate) name: String,
    /// A clone of this repository: the SDK is there.
    #[arg(long)]
    pub(crate) checkout: PathBuf,
}

#[derive(Arguments)]
pub(crate) struct TestOptions {
    /// The component.
    pub(crate) module: PathBuf,
    /// An annotation that each scene's instance gets, for what the policy reads there; may be repeated.
    #[arg(long = "annotation", value_name = "KEY=VALUE")]
    pub(crate) annotations: Vec<String>,
    /// Only scenes whose name contains this.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) scene: String,
}

#[derive(Arguments)]
pub(crate) struct ReplayOptions {
    /// What 'valkey-operator journal' printed; '-' reads standard input.
    pub(crate) journal: PathBuf,
    /// The component.
    #[arg(long)]
    pub(crate) module: PathBuf,
}

#[derive(Arguments)]
pub(crate) struct PackOptions {
    /// The component.
    pub(crate) component: PathBuf,
    /// Name of the ConfigMap; default: the policy's name.
    #[arg(long)]
    pub(crate) config_map: Option<String>,
}

#[derive(Arguments)]
pub(crate) struct JournalOptions {
    /// NAMESPACE/NAME of the Valkey.
    pub(crate) instance: String,
    /// Where the operator serves its journal.
    #[arg(long, env = "JOURNAL_ADDRESS", default_value = "127.0.0.1:8082")]
    pub(crate) address: SocketAddr,
}
