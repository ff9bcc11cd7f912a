//! The way in: HTTP, as kube's clients and kubectl speak it.
//!
//! Each client that faults should tell from others gets an address of its own.
//!
//! # Guarantees
//! Only who knows an entrance's token is answered: whoever is on this machine can connect to the loopback, and Secrets are
//! served.
//!
//! # Assumptions
//! Strategic merge patches are taken as merge patches: the same for labels, annotations and scalars, which is what people patch
//! by hand.

mod discovery;
mod path;
mod watch;

use std::convert::Infallible;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use self::path::{Query, Target};
use crate::fault::{Act, Asked};
use crate::history;
use crate::json::text;
use crate::refusal::Refusal;
use crate::requests;
use crate::resource::Key;
use crate::selector::Selector;
use crate::server::ApiServer;
use crate::store::{DeleteOptions, Manner, Part, Unknown};

/// Largest body that is read; the real server's limit is 3 MiB.
const BODY_MAX: usize = 3 << 20;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The connection breaks instead of an answer.
#[derive(Debug)]
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection breaks, as a fault asked for")
    }
}

impl std::error::Error for Broken {}

/// An address at which one client is served. Dropping it ends its connections.
pub struct Entrance {
    address: SocketAddr,
    token: String,
    task: JoinHandle<()>,
}

impl Entrance {
    /// As in a kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bearer token that a client has to send.
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl std::fmt::Debug for Entrance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entrance").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves a client of that name on a free port of the loopback.
///
/// # Errors
/// No port is free, or the kernel gives no random numbers.
pub async fn serve(api: Arc<ApiServer>, client: &str) -> std::io::Result<Entrance> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let token = random_token()?;
    let (client, wanted): (Arc<str>, Arc<str>) = (client.into(), format!("Bearer {token}").into());
    let task = tokio::spawn(async move {
        // Aborting the task drops the set, and with it the connections.
        let mut connections = JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let (api, client, wanted) = (api.clone(), client.clone(), wanted.clone());
            while connections.try_join_next().is_some() {}
            connections.spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let (api, client, known) = (api.clone(), client.clone(), is_known(&request, &wanted));
                    async move { if known { answer(api, client, request).await } else { Ok(refused(&Refusal::unauthorized())) } }
                });
                if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                    tracing::debug!(%error, "a connection ended early");
                }
            });
        }
    });
    Ok(Entrance { address, token, task })
}

fn random_token() -> std::io::Result<String> {
    let mut bytes = [0_u8; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a request brings the token. All of it is compared, so that the time says nothing of where it differs.
fn is_known(request: &Request<Incoming>, wanted: &str) -> bool {
    let sent = request.headers().get("authorization").map(|value| value.as_bytes()).unwrap_or_default();
    sent.len() == wanted.len() && sent.iter().zip(wanted.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

async fn answer(api: Arc<ApiServer>, client: Arc<str>, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let asked = Asking {
        api,
        client,
        method: head.method,
        content: header("content-type"),
        manager: query.get("fieldManager").map_or_else(|| manager(&header("user-agent")), str::to_owned),
        query,
        body: match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => return Err(Broken),
        },
    };
    if let Some(document) = discovery::answer(&asked.api, head.uri.path()) {
        return Ok(json_response(200, &document));
    }
    match Target::parse(&asked.api, head.uri.path()) {
        Ok(target) => asked.serve(target).await,
        Err(refusal) => Ok(refused(&refusal)),
    }
}

/// As the server names managers that don't name themselves.
fn manager(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}

/// A request.
struct Asking {
    api: Arc<ApiServer>,
    client: Arc<str>,
    method: Method,
    content: String,
    manager: String,
    query: Query,
    body: Bytes,
}

impl Asking {
    async fn serve(self, target: Target) -> Result<Response<Body>, Broken> {
        let verb = self.verb(&target);
        if verb == "watch" {
            return Ok(watch::answer(self.api, &self.client, &target, &self.query));
        }
        let asked = Asked { verb, resource: &target.resource, name: &target.name, client: &self.client };
        let struck = self.api.faults.strike(asked);
        match struck {
            Some(Act::Refuse { code }) => return Ok(refused(&by_script(code))),
            Some(Act::Delay { ms }) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Some(Act::Lose) => std::future::pending().await,
            _ => {}
        }
        let lag = if let Some(Act::Stale { versions }) = &struck { *versions } else { 0 };
        let (code, response) = match self.act(verb, &target, lag) {
            Ok((code, document)) => (code, json_response(code, &document)),
            Err(refusal) => (refusal.code, refused(&refusal)),
        };
        if !["get", "list"].contains(&verb) {
            self.api.requests.note(requests::Request { client: self.client.to_string(), verb, key: target.key(), code });
        }
        match struck {
            Some(Act::LoseAnswer) => std::future::pending().await,
            Some(Act::Break) => Err(Broken),
            _ => Ok(response),
        }
    }

    fn verb(&self, target: &Target) -> &'static str {
        match (&self.method, target.name.is_empty(), self.content.as_str()) {
            (&Method::GET, true, _) if self.query.is("watch", "true") || self.query.is("watch", "1") => "watch",
            (&Method::GET, true, _) => "list",
            (&Method::GET, false, _) => "get",
            (&Method::POST, _, _) if target.subresource == "eviction" => "evict",
            (&Method::POST, true, _) => "create",
            (&Method::PUT, false, _) => "replace",
            (&Method::PATCH, false, content) if content.starts_with("application/apply-patch") => "apply",
            (&Method::PATCH, false, "application/merge-patch+json" | "application/strategic-merge-patch+json") => "merge",
            (&Method::DELETE, false, _) => "delete",
            _ => "none",
        }
    }

    fn manner(&self, target: &Target) -> Manner<'_> {
        Manner {
            manager: &self.manager,
            part: if target.subresource == "status" { Part::Status } else { Part::Main },
            unknown: if self.query.is("fieldValidation", "Strict") { Unknown::Strict } else { Unknown::Dropped },
        }
    }

    fn act(&self, verb: &str, target: &Target, lag: u64) -> Result<(u16, Value), Refusal> {
        if self.query.get("dryRun").is_some() {
            return Err(Refusal::bad_request("dryRun isn't served here"));
        }
        if self.body.len() > BODY_MAX {
            let message = format!("the request is larger than {BODY_MAX} bytes");
            return Err(Refusal { code: 413, reason: "RequestEntityTooLarge", message });
        }
        let (key, manner) = (target.key(), self.manner(target));
        let whole = |object: Arc<Value>| (200, (*object).clone());
        match verb {
            "get" => {
                let found = self.api.read(|store| store.get(&key).cloned());
                found.map(whole).ok_or_else(|| Refusal::not_found(&key.resource, &key.name))
            }
            "list" => self.list(target, lag).map(|list| (200, list)),
            "create" => {
                let object = self.object(target)?;
                self.in_namespace(target)?;
                self.api.write(|store| store.create(&target.resource, object, manner)).map(|made| (201, (*made).clone()))
            }
            "replace" => {
                let object = self.object(target)?;
                self.api.write(|store| store.replace(&key, object, manner)).map(whole)
            }
            "merge" => {
                let patch = self.document()?;
                self.api.write(|store| store.merge(&key, &patch, manner)).map(whole)
            }
            "apply" => {
                let (object, force) = (self.object(target)?, self.query.is("force", "true"));
                self.in_namespace(target)?;
                let is_new = self.api.read(|store| store.get(&key).is_none());
                let applied = self.api.write(|store| store.apply(&key, object, manner, force))?;
                Ok((if is_new { 201 } else { 200 }, (*applied).clone()))
            }
            "delete" => {
                let options = self.delete_options(&self.body)?;
                let marked = self.api.write(|store| store.delete(&key, &options))?;
                Ok((200, marked.map_or_else(|| success(&key), |marked| (*marked).clone())))
            }
            "evict" => {
                let eviction = self.document()?;
                let options: DeleteOptions =
                    serde_json::from_value(eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({})))
                        .map_err(|error| Refusal::bad_request(error.to_string()))?;
                self.api.write(|store| store.evict(&target.namespace, &target.name, &options))?;
                Ok((201, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})))
            }
            _ => Err(Refusal {
                code: 405,
                reason: "MethodNotAllowed",
                message: format!("{} {} isn't served here", self.method, self.content),
            }),
        }
    }

    fn document(&self) -> Result<Value, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad_request(format!("the body is no JSON: {error}")))
    }

    /// The body as an object of the request's kind and namespace.
    fn object(&self, target: &Target) -> Result<Value, Refusal> {
        let mut object = self.document()?;
        if !object.is_object() {
            return Err(Refusal::bad_request("the body is no object"));
        }
        let namespace = text(&object, "/metadata/namespace").to_owned();
        if !target.namespace.is_empty() && namespace.is_empty() {
            object["metadata"]["namespace"] = json!(target.namespace);
        } else if namespace != target.namespace {
            return Err(Refusal::bad_request("the namespace of the object does not match the namespace of the request"));
        }
        Ok(object)
    }

    fn in_namespace(&self, target: &Target) -> Result<(), Refusal> {
        let there = || self.api.read(|store| store.get(&Key::new("namespaces", "", &target.namespace)).is_some());
        if target.namespace.is_empty() || there() { Ok(()) } else { Err(Refusal::not_found("namespaces", &target.namespace)) }
    }

    fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, Refusal> {
        let mut options: DeleteOptions = if body.is_empty() {
            DeleteOptions::default()
        } else {
            serde_json::from_slice(body).map_err(|error| Refusal::bad_request(error.to_string()))?
        };
        if let Some(policy) = self.query.get("propagationPolicy") {
            options.propagation_policy = Some(policy.to_owned());
        }
        if let Some(grace) = self.query.get("gracePeriodSeconds").and_then(|grace| grace.parse().ok()) {
            options.grace_period_seconds = Some(grace);
        }
        Ok(options)
    }

    /// In pages, if so asked. A page goes on behind the last object of the one before; the list's version is the first page's.
    fn list(&self, target: &Target, lag: u64) -> Result<Value, Refusal> {
        let selector = Selector::parse(self.query.get("labelSelector").unwrap_or_default())?;
        let limit = self.query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let token = self.query.get("continue").filter(|token| !token.is_empty());
        let behind = token.and_then(|token| {
            let mut parts = token.splitn(3, '|');
            Some((parts.next()?.parse::<u64>().ok()?, Key::new(&target.resource, parts.next()?, parts.next()?)))
        });
        self.api.read(|store| {
            let kind = store.resource(&target.resource)?;
            let now = store.version().saturating_sub(lag);
            let version = behind.as_ref().map_or(now, |(version, _)| *version);
            let namespace = Some(target.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let all = history::list(store, &target.resource, namespace, now)?;
            let found = all.iter().filter(|(_, object)| selector.matches(object));
            let mut found = found.filter(|(key, _)| behind.as_ref().is_none_or(|(_, behind)| *key > behind)).peekable();
            let (mut items, mut last) = (Vec::new(), None);
            while items.len() < limit
                && let Some((key, object)) = found.next()
            {
                items.push((**object).clone());
                last = Some(key);
            }
            let more = found.peek().and(last).map(|key| format!("{version}|{}|{}", key.namespace, key.name));
            let metadata = json!({"resourceVersion": version.to_string(), "continue": more.unwrap_or_default()});
            Ok(json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": metadata, "items": items}))
        })
    }
}

/// The words of a refusal that a script asked for.
fn by_script(code: u16) -> Refusal {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        403 => "Forbidden",
        _ => "InternalError",
    };
    Refusal { code, reason, message: format!("{code}, as a fault asked for") }
}

fn success(key: &Key) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {"name": key.name, "kind": key.resource}})
}

fn refused(refusal: &Refusal) -> Response<Body> {
    json_response(refusal.code, &refusal.status())
}

fn json_response(code: u16, document: &Value) -> Response<Body> {
    respond(code, Full::new(Bytes::from(document.to_string())).boxed_unsync())
}

fn respond(code: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    response
}
