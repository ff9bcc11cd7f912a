//! `journal`: asks the running operator on loopback.

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::args::JournalOptions;

/// Prints an instance's journal, a JSON entry per line, oldest first.
pub(crate) async fn print(options: &JournalOptions) -> anyhow::Result<()> {
    let Some((namespace, name)) = options.instance.split_once('/') else {
        bail!("name the instance as NAMESPACE/NAME, not {:?}", options.instance);
    };
    let stream = TcpStream::connect(options.address)
        .await
        .with_context(|| format!("no operator serves its journal on {}; run this in the operator's pod", options.address))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request =
        hyper::Request::get(format!("/journal/{namespace}/{name}")).header("host", "localhost").body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let found = answer.status().is_success();
    let body = answer.into_body().collect().await?.to_bytes();
    if !found {
        bail!("{}", String::from_utf8_lossy(&body));
    }
    print!("{}", String::from_utf8_lossy(&body));
    Ok(())
}
