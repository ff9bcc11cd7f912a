//! Dialling: TCP, login, name, in one go.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::io::AsyncDNSResolver;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisResult,
};
use vko_core::world::{ServerError, Target};

use crate::errors;

/// Shows in CLIENT LIST and in the server's log whose connection it is.
const CLIENT_NAME: &str = "valkey-operator";

/// Bounds TCP connect and login together. A reachable server answers within milliseconds, one that forks or swaps within a
/// second; the caller's own deadline may end it earlier.
const DIAL_MAX: Duration = Duration::from_secs(3);

/// Idle time before the kernel asks whether the other end still lives. Only finds half-open connections between probes; calls
/// have deadlines.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How often the kernel asks, [`KEEPALIVE`] after the last word: a subscription, on which nothing is ever asked, ends about half
/// a minute after its Sentinel's machine is gone.
const KEEPALIVE_TRIES: u32 = 3;

/// Pause between these questions.
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(5);

/// Makes a connection that is logged in and named.
///
/// # Errors
/// [`ServerError::Silent`] after [`DIAL_MAX`]; [`ServerError::Login`], [`ServerError::Lost`] and what else a server may say.
pub(crate) async fn dial(target: &Target) -> Result<MultiplexedConnection, ServerError> {
    bounded(target, connect(target, AsyncConnectionConfig::new())).await
}

/// The same, subscribed to channels. `push` gets what comes unasked; it must not block.
///
/// # Errors
/// As of [`dial`].
pub(crate) async fn dial_for_events(
    target: &Target,
    channels: &[&str],
    push: impl AsyncPushSender,
) -> Result<MultiplexedConnection, ServerError> {
    let subscribed = async {
        let mut connection = connect(target, AsyncConnectionConfig::new().set_push_sender(push)).await?;
        connection.subscribe(channels).await?;
        Ok(connection)
    };
    bounded(target, subscribed).await
}

/// A dial that ends within [`DIAL_MAX`], with errors that hold no secret.
async fn bounded(
    target: &Target,
    dial: impl Future<Output = RedisResult<MultiplexedConnection>>,
) -> Result<MultiplexedConnection, ServerError> {
    tracing::debug!(pod = target.pod, address = %SocketAddr::new(target.ip, target.port), user = target.credential.user, "dialling");
    let secrets = [target.credential.password.reveal().to_owned()];
    match tokio::time::timeout(DIAL_MAX, dial).await {
        Ok(dialled) => dialled.map_err(|failure| errors::error(&failure, DIAL_MAX, &secrets)),
        Err(_) => Err(ServerError::Silent(DIAL_MAX)),
    }
}

async fn connect(target: &Target, config: AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
    let address = SocketAddr::new(target.ip, target.port);
    let login = RedisConnectionInfo::default()
        .set_username(&target.credential.user)
        .set_password(target.credential.password.reveal())
        .set_protocol(ProtocolVersion::RESP3)
        // CLIENT SETINFO would need a right of its own, for nothing.
        .set_skip_set_lib_name();
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_PAUSE).with_retries(KEEPALIVE_TRIES);
    let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    let info = ConnectionAddr::Tcp(address.ip().to_string(), address.port())
        .into_connection_info()?
        .set_tcp_settings(tcp)
        .set_redis_settings(login);
    let config = config
        // All of it has one deadline, and each call brings its own: the library's defaults (1 s, 500 ms) would cut longer ones.
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_dns_resolver(Fixed(address));
    let mut connection = Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await?;
    redis::cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME).query_async::<()>(&mut connection).await?;
    Ok(connection)
}

/// The address is known: no name is ever looked up.
struct Fixed(SocketAddr);

impl AsyncDNSResolver for Fixed {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _host: &'b str,
        _port: u16,
    ) -> BoxFuture<'a, RedisResult<Box<dyn Iterator<Item = SocketAddr> + Send + 'a>>> {
        let address: Box<dyn Iterator<Item = SocketAddr> + Send> = Box::new(std::iter::once(self.0));
        std::future::ready(Ok(address)).boxed()
    }
}
