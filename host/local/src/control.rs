//! The way from the other commands to the owner: a line of JSON there, a line back, over a socket that is the owner's alone.
//!
//! Whoever asked for the end is connected until this process has ended: the kernel closes that connection, with all that the
//! process held. So what comes behind `down` (the next `up`, say) finds nothing of it.

use std::os::fd::IntoRawFd;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::delete::Doomed;
use crate::view::View;

/// Longest request: as long as the API server's.
const REQUEST_MAX: u64 = 3 << 20;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// How things stand; not before all is ready, for so many seconds at most.
    Status { wait_s: Option<u64> },
    /// Texts of manifests, with their files' names.
    Apply { files: Vec<(String, String)> },
    /// What shall go; answered when it has gone, or after so many seconds.
    Delete { what: Doomed, wait_s: u64 },
    /// A signal for a pod's server.
    Kill { pod: String, signal: String },
    /// The end; answered when all servers have ended.
    Down { delete_data: bool },
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    View(Box<View>),
    Done(Vec<String>),
    Refused(Vec<String>),
}

/// A request, and where its reply goes.
pub(crate) type Asked = (Request, oneshot::Sender<Reply>);

/// Takes requests until nobody answers them any more, and returns when the last reply is written.
pub(crate) async fn serve(listener: UnixListener, asked: mpsc::Sender<Asked>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = asked.closed() => break,
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                while connections.try_join_next().is_some() {}
                connections.spawn(answer(stream, asked.clone()));
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn answer(mut stream: UnixStream, asked: mpsc::Sender<Asked>) {
    let (reader, mut writer) = stream.split();
    let mut is_last = false;
    let mut line = String::new();
    if BufReader::new(reader).take(REQUEST_MAX).read_line(&mut line).await.is_err() {
        return;
    }
    let reply = match serde_json::from_str(&line) {
        Ok(request) => {
            is_last = matches!(request, Request::Down { .. });
            let (tell, told) = oneshot::channel();
            // Without a reply the owner is ending, which the end of the connection says.
            if asked.send((request, tell)).await.is_err() {
                return;
            }
            match told.await {
                Ok(reply) => reply,
                Err(_) => return,
            }
        }
        Err(error) => Reply::Refused(vec![format!("the owner, which is of another version, doesn't understand this: {error}")]),
    };
    if let Ok(mut text) = serde_json::to_vec(&reply) {
        text.push(b'\n');
        // Whoever asked may have gone.
        let _ = writer.write_all(&text).await;
    }
    if is_last && let Ok(stream) = stream.into_std() {
        // Nobody closes it but the kernel.
        let _ = stream.into_raw_fd();
    }
}
