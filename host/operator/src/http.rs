//! The three small servers: metrics, health, journal. One path each, GET only.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// Answers a path: status and text.
pub(crate) type Answer = Arc<dyn Fn(&str) -> (StatusCode, String) + Send + Sync>;

/// Serves until the process ends.
///
/// # Errors
/// The address can't be listened on.
pub(crate) async fn serve(address: SocketAddr, answer: Answer) -> anyhow::Result<impl Future<Output = ()> + Send> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("can't listen on {address}"))?;
    Ok(accept(listener, answer))
}

async fn accept(listener: TcpListener, answer: Answer) {
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, say: others' sockets have to close first, and there is no event for that.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| respond(request, answer.clone()));
            // Clients that only connect are dropped by the header timeout.
            let served = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
            if let Err(error) = served {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

async fn respond(request: Request<hyper::body::Incoming>, answer: Answer) -> Result<Response<Full<Bytes>>, hyper::http::Error> {
    let (status, text) = if request.method() == Method::GET {
        answer(request.uri().path())
    } else {
        (StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n".into())
    };
    Response::builder().status(status).header("content-type", "text/plain; charset=utf-8").body(Full::new(Bytes::from(text)))
}
