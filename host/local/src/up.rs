//! `up`: owns a world, in the foreground.
//!
//! # Guarantees
//! 1. However this process ends, its servers end: told to by itself, killed by the kernel if it was killed.
//! 2. An end that was asked for is in order: the operator first, so that it makes nothing of what follows; then the servers, each
//!    in its grace. A second signal ends everything at once.
//!
//! # Flow
//! 1. Find servers and agent, read the manifests; hold the folder.
//! 2. Open the world, with what was in the folder; apply the manifests.
//! 3. Start the operator; listen on the socket.
//! 4. Tell what changes, answer the other commands.
//! 5. A signal, `down`, or a part of the operator that ended: the end.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;
use vko_mock::Operator;
use vko_run::Policies;

use crate::args::UpOptions;
use crate::changes::Story;
use crate::control::{self, Asked, Reply, Request};
use crate::delete::Doomed;
use crate::folder::{Folder, Held};
use crate::world::World;
use crate::{client, servers};

/// Requests that wait while one is answered.
const WAITING: usize = 16;
/// For replies that are being written when the owner ends.
const REPLIES: Duration = Duration::from_secs(2);

/// Why it ends.
enum End {
    /// A signal.
    Signal,
    /// `down`, and whether data shall go; its reply goes there.
    Asked { delete_data: bool, reply: oneshot::Sender<Reply> },
}

/// Owns the world until it ends.
pub(crate) async fn up(folder: Folder, options: UpOptions) -> anyhow::Result<()> {
    log();
    let mut signals = Signals::new()?;
    let images = servers::find(options.servers.as_deref())?;
    let files = client::texts_of(&options.files)?;
    let held = folder.hold()?;
    let teller = Teller { began: Instant::now() };
    let policies = tokio::task::spawn_blocking(Policies::built_in);
    let world = Arc::new(World::open(folder.clone(), images).await?);
    match world.apply(&files) {
        Ok(done) => done.iter().for_each(|line| teller.tell(line)),
        Err(faults) => bail!("{}", faults.join("\n")),
    }
    if world.view().instances.is_empty() {
        bail!("there is nothing to run: name a manifest by -f");
    }
    let socket = folder.socket();
    let listener =
        UnixListener::bind(&socket).with_context(|| format!("can't listen on {}; a shorter --dir may help", socket.display()))?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    let (ask, mut asked) = mpsc::channel(WAITING);
    let serving = tokio::spawn(control::serve(listener, ask));
    let mut operator = Operator::start(&world.bed, "local", policies.await??).await?;
    teller.tell(&format!("the operator runs; folder {}", folder.path().display()));
    let mut tasks = JoinSet::new();
    let end = tokio::select! {
        () = signals.next() => Ok(End::Signal),
        end = attend(&world, &teller, &mut asked, &mut tasks) => Ok(end),
        ended = operator.ended() => Err(ended),
    };
    teller.tell("ending: the operator, then the servers");
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(130);
    });
    tasks.shutdown().await;
    let closed = close(world, operator).await;
    let (reply, text) = match end {
        Ok(End::Asked { delete_data, reply }) => (Some(reply), finish(held, delete_data)?),
        Ok(End::Signal) => (None, finish(held, false)?),
        Err(ended) => return Err(ended.into()),
    };
    teller.tell(&text);
    if let Some(reply) = reply {
        // Whoever asked may have gone.
        let _ = reply.send(Reply::Done(vec![text]));
    }
    drop(asked);
    let _ = tokio::time::timeout(REPLIES, serving).await;
    closed
}

async fn close(world: Arc<World>, operator: Operator) -> anyhow::Result<()> {
    let stopped = operator.stop().await;
    let world = Arc::into_inner(world).context("something still uses the world")?;
    world.close().await?;
    Ok(stopped?)
}

fn finish(held: Held, delete_data: bool) -> anyhow::Result<String> {
    let path = held.folder.path().display().to_string();
    if delete_data {
        held.delete()?;
        return Ok(format!("everything has ended; {path} is deleted"));
    }
    drop(held);
    Ok(format!(
        "everything has ended; data and passwords are kept in {path}: 'up' goes on with them, 'down --delete-data' deletes them"
    ))
}

/// Tells what changes and answers, until `down`.
async fn attend(world: &Arc<World>, teller: &Teller, asked: &mut mpsc::Receiver<Asked>, tasks: &mut JoinSet<()>) -> End {
    let mut versions = world.bed.api.versions();
    let mut story = Story::default();
    loop {
        versions.borrow_and_update();
        story.goes_on(world.view()).iter().for_each(|line| teller.tell(line));
        tokio::select! {
            // The sender lives as long as the world.
            _ = versions.changed() => {}
            Some((request, reply)) = asked.recv() => match request {
                Request::Down { delete_data } => return End::Asked { delete_data, reply },
                Request::Status { wait_s } => drop(tasks.spawn(stand(world.clone(), wait_s, reply))),
                Request::Delete { what, wait_s } => drop(tasks.spawn(go(world.clone(), what, wait_s, reply))),
                other => {
                    // Whoever asked may have gone.
                    let _ = reply.send(act(world, teller, other));
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

fn act(world: &World, teller: &Teller, request: Request) -> Reply {
    let done = match request {
        Request::Apply { files } => world.apply(&files),
        Request::Kill { pod, signal } => world.kill(&pod, &signal).map(|line| vec![line]).map_err(|why| vec![why]),
        Request::Status { .. } | Request::Delete { .. } | Request::Down { .. } => Ok(Vec::new()),
    };
    match done {
        Ok(lines) => {
            lines.iter().for_each(|line| teller.tell(line));
            Reply::Done(lines)
        }
        Err(why) => Reply::Refused(why),
    }
}

/// Deletes, and says so once it has happened. What goes is told as it goes, by [`Story`].
async fn go(world: Arc<World>, what: Doomed, wait_s: u64, reply: oneshot::Sender<Reply>) {
    let done = world.delete(&what, Duration::from_secs(wait_s)).await;
    // Whoever asked may have gone.
    let _ = reply.send(done.map_or_else(Reply::Refused, Reply::Done));
}

/// How things stand, once all is settled or the time is up.
async fn stand(world: Arc<World>, wait_s: Option<u64>, reply: oneshot::Sender<Reply>) {
    let ready = async {
        let mut versions = world.bed.api.versions();
        while !world.view().is_settled() && versions.changed().await.is_ok() {}
    };
    let _ = tokio::time::timeout(Duration::from_secs(wait_s.unwrap_or(0)), ready).await;
    // Whoever asked may have gone.
    let _ = reply.send(Reply::View(Box::new(world.view())));
}

/// Writes lines, with the seconds since the beginning.
struct Teller {
    began: Instant,
}

impl Teller {
    fn tell(&self, line: &str) {
        // A reader that has gone is no reason to end.
        let _ = writeln!(std::io::stdout(), "{:7.1} s  {line}", self.began.elapsed().as_secs_f64());
    }
}

/// Signals that ask for the end; SIGHUP comes when a terminal is closed.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// Warnings only, unless RUST_LOG says otherwise: what matters is told in words for people.
fn log() {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,kube_client=off,vko_core::lease=error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(false).with_writer(std::io::stderr).init();
}
