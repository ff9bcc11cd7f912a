//! The command line.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand, ValueEnum};

/// Run Valkey on this machine, without Kubernetes.
#[derive(Parser)]
#[command(name = "valkey-operator local", bin_name = "valkey-operator local", version, about)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which world.
#[derive(Arguments, Clone)]
pub(crate) struct Place {
    /// Name of the world: several can be up at a time.
    #[arg(long, global = true, default_value = "default")]
    pub(crate) name: String,
    /// Its folder: data, passwords, socket [default: $XDG_STATE_HOME/valkey-operator/local/NAME, or below ~/.local/state].
    #[arg(long, global = true, env = "VKO_LOCAL_DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run instances on this machine, until Ctrl-C, SIGTERM or `down`. Data on volumes stays for the next `up`.
    Up(UpOptions),
    /// Show how things stand.
    Status(StatusOptions),
    /// Change what runs.
    Apply(ApplyOptions),
    /// Delete what was applied. An instance's claims stay, unless its spec says otherwise.
    Delete(DeleteOptions),
    /// Send a signal to a pod's server, as a fault.
    Kill(KillOptions),
    /// End what runs. Data on volumes stays.
    Down(DownOptions),
}

#[derive(Arguments)]
pub(crate) struct UpOptions {
    /// Manifests (YAML or JSON, several documents; `-`: standard input). Without any: what ran in this folder before.
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Servers: a folder with LINE/valkey-server (9.1/valkey-server, ...) [default: valkey-server of PATH].
    #[arg(long, value_name = "DIR", env = "VALKEY_SERVERS")]
    pub(crate) servers: Option<PathBuf>,
}

#[derive(Arguments)]
pub(crate) struct StatusOptions {
    /// How to write it.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Wait so many seconds at most until it is up and every instance is ready and at rest; an error if one isn't by then.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Arguments)]
pub(crate) struct ApplyOptions {
    /// Manifests (YAML or JSON, several documents; `-`: standard input).
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Arguments)]
pub(crate) struct DeleteOptions {
    /// Manifests of what shall go; only kinds, names and namespaces in them count.
    #[arg(short, long = "file", value_name = "FILE", conflicts_with = "kind")]
    pub(crate) files: Vec<PathBuf>,
    /// Valkey, Sentinel, Secret or ConfigMap.
    #[arg(required_unless_present = "files", requires = "object")]
    pub(crate) kind: Option<String>,
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(crate) object: Option<String>,
    /// Its namespace [default: where it is applied to when none is said].
    #[arg(short, long, conflicts_with = "files")]
    pub(crate) namespace: Option<String>,
    /// Wait so many seconds at most until it has gone; an error if it hasn't by then. It goes on all the same.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) wait: u64,
}

#[derive(Arguments)]
pub(crate) struct KillOptions {
    /// The pod; NAMESPACE/POD where the name alone isn't clear.
    pub(crate) pod: String,
    /// KILL, TERM, STOP, CONT or INT.
    #[arg(long, default_value = "KILL")]
    pub(crate) signal: String,
}

#[derive(Arguments)]
pub(crate) struct DownOptions {
    /// Delete the folder, too: data, passwords, everything.
    #[arg(long)]
    pub(crate) delete_data: bool,
}
