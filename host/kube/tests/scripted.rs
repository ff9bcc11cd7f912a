//! What the world does when the API server is slow, forgetful or in parts, against a scripted one on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Config;
use serde_json::{Value, json};
use vko_core::object::{Kind, Object, ObjectId};
use vko_core::world::{ApiError, Change, Kube};
use vko_kube::{ConnectError, KubeWorld, Options};

/// What the server answers.
enum Answer {
    /// A status code and a document.
    Json(u16, Value),
    /// Lines of a watch; then the connection ends.
    Ends(Vec<Value>),
    /// Lines of a watch, which then stays open and silent.
    Stays(Vec<Value>),
}

/// Requests so far as `METHOD path?query`.
type Requests = Arc<Mutex<Vec<String>>>;

/// Serves by `script`, which gets a request and the number of the same requests before it (the query counts); what it doesn't
/// know is answered as an API server without objects would.
fn serve(script: impl Fn(&str, usize) -> Option<Answer> + Send + Sync + 'static) -> (Config, Requests) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (requests, script) = (Requests::default(), Arc::new(script));
    let seen = requests.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (seen, script) = (seen.clone(), script.clone());
            std::thread::spawn(move || converse(&connection.unwrap(), &seen, &*script));
        }
    });
    (Config::new(url.parse().unwrap()), requests)
}

/// One request and its answer; the connection isn't used again.
fn converse(connection: &TcpStream, seen: &Requests, script: &dyn Fn(&str, usize) -> Option<Answer>) -> Option<()> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    reader.read_line(&mut head).ok()?;
    let request = head.rsplit_once(' ')?.0.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    let before = {
        let mut seen = seen.lock().unwrap();
        let before = seen.iter().filter(|known| **known == request).count();
        seen.push(request.clone());
        before
    };
    let (code, body, stays) = match script(&request, before).unwrap_or_else(|| empty(&request)) {
        Answer::Json(code, document) => (code, document.to_string(), false),
        Answer::Ends(events) => (200, lines(&events), false),
        Answer::Stays(events) => (200, lines(&events), true),
    };
    let mut writer = connection;
    write!(writer, "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}").ok()?;
    writer.flush().ok()?;
    if stays {
        // Until the client closes.
        let _ = std::io::copy(&mut &*connection, &mut std::io::sink());
    }
    Some(())
}

fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

/// An API server that serves our kinds and has no objects.
fn empty(request: &str) -> Answer {
    let resources = |served: &[Kind]| {
        let resource = |kind: &Kind| json!({"name": kind.plural(), "singularName": "", "namespaced": true, "kind": kind.name(), "verbs": ["list"]});
        let resources: Vec<Value> = served.iter().map(resource).collect();
        Answer::Json(200, json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "", "resources": resources}))
    };
    match request {
        "GET /apis/rds.valkey.buf.red/v1alpha1" => resources(&[Kind::Valkey]),
        "GET /apis/valkey.buf.red/v1alpha1" => resources(&[Kind::Cluster, Kind::Failover, Kind::Sentinel]),
        _ if request.contains("watch=true") => Answer::Stays(Vec::new()),
        _ => Answer::Json(200, list(&[], 1, "")),
    }
}

fn list(items: &[Value], version: u64, next: &str) -> Value {
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string(), "continue": next}, "items": items})
}

fn secret(name: &str, version: u64) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "valkey-operator", "buf.red/name": "one"});
    json!({"metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": version.to_string(), "labels": labels}})
}

fn id(name: &str) -> ObjectId {
    ObjectId::new(Kind::Secret, "n", name)
}

fn options() -> Options {
    Options { namespace: None, operator_namespace: "ops".to_owned(), pod: "operator-0".to_owned() }
}

fn is_secrets(request: &str, watch: bool) -> bool {
    request.starts_with("GET /api/v1/secrets?") && request.contains("watch=true") == watch
}

async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("no end within a minute")
}

/// Waits until the cache looks as expected, looking again at each change; returns the changes.
async fn until(world: &KubeWorld, look: impl Fn(&KubeWorld) -> bool) -> Vec<Change> {
    let mut changes = world.changes();
    let mut seen = Vec::new();
    bounded(async {
        while !look(world) {
            seen.push(changes.recv().await.unwrap());
        }
    })
    .await;
    seen
}

/// Waits until a request has come. Requests announce nothing, so this looks again at each turn of the runtime.
async fn asked(requests: &Requests, what: impl Fn(&str) -> bool) -> String {
    bounded(async {
        loop {
            if let Some(found) = requests.lock().unwrap().iter().find(|request| what(request)) {
                return found.clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_missing_crd_is_named_with_what_to_do() {
    for (name, answer) in [
        ("no such group", Answer::Json(404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}))),
        ("the group without the kind", Answer::Json(200, json!({"groupVersion": "valkey.buf.red/v1alpha1", "resources": []}))),
    ] {
        let answer = Mutex::new(Some(answer));
        let script = move |request: &str, _| {
            (request == "GET /apis/valkey.buf.red/v1alpha1").then(|| answer.lock().unwrap().take()).flatten()
        };
        let (config, _) = serve(script);
        let error = bounded(KubeWorld::with_config(config, &options())).await.unwrap_err();
        assert!(matches!(error, ConnectError::CrdMissing { plural: "clusters", .. }), "{name}: {error}");
        let text = "the CRD clusters.valkey.buf.red is missing or has no version v1alpha1: apply crds/ first";
        assert_eq!(error.to_string(), text, "{name}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_no_missing_crd() {
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let config = Config::new(format!("http://{closed}").parse().unwrap());
    let error = bounded(KubeWorld::with_config(config, &options())).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable(ApiError::Unavailable(_))), "{error}");
}

#[tokio::test]
async fn a_write_is_tried_once() {
    let script = |request: &str, _| {
        let busy = json!({"kind": "Status", "status": "Failure", "message": "busy", "reason": "ServiceUnavailable", "code": 503});
        request.starts_with("PATCH").then_some(Answer::Json(503, busy))
    };
    let (config, requests) = serve(script);
    let world = bounded(KubeWorld::with_config(config, &options())).await.unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "n", "name": "a"}});
    assert_eq!(bounded(world.apply(&object)).await, Err(ApiError::Unavailable("busy".to_owned())));
    let patches: Vec<_> = requests.lock().unwrap().iter().filter(|request| request.starts_with("PATCH")).cloned().collect();
    let expected = "PATCH /api/v1/namespaces/n/secrets/a?&force=true&fieldManager=valkey-operator&fieldValidation=Strict";
    assert_eq!(patches, [expected]);
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let script = |request: &str, _| {
        is_secrets(request, false).then(|| match request.contains("continue=more") {
            false => Answer::Json(200, list(&[secret("a", 5)], 10, "more")),
            true => Answer::Json(200, list(&[secret("b", 6)], 10, "")),
        })
    };
    let (config, requests) = serve(script);
    let world = bounded(KubeWorld::with_config(config, &options())).await.unwrap();
    bounded(world.synced()).await;
    let names: Vec<_> = world.cached_of(Kind::Secret, "n", "one").iter().map(|secret| secret.name().to_owned()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(world.cached(&id("a")).map(|secret| secret.text("/kind").to_owned()), Some("Secret".to_owned()));
    let watch = asked(&requests, |request| is_secrets(request, true)).await;
    assert!(watch.contains("resourceVersion=10") && watch.contains("allowWatchBookmarks=true"), "{watch}");
    assert!(watch.contains("labelSelector=app.kubernetes.io%2Fmanaged-by%3Dvalkey-operator"), "{watch}");
}

#[tokio::test]
async fn an_expired_watch_lists_anew_and_tells_what_is_gone() {
    let script = |request: &str, before: usize| {
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}});
        match (is_secrets(request, false), is_secrets(request, true)) {
            (true, _) if before == 0 => Some(Answer::Json(200, list(&[secret("a", 5), secret("b", 6)], 10, ""))),
            (true, _) => Some(Answer::Json(200, list(&[secret("b", 6)], 20, ""))),
            (_, true) if request.contains("resourceVersion=10") => Some(Answer::Ends(vec![gone])),
            _ => None,
        }
    };
    let (config, requests) = serve(script);
    let world = bounded(KubeWorld::with_config(config, &options())).await.unwrap();
    bounded(world.synced()).await;
    let changes = until(&world, |world| world.cached(&id("a")).is_none()).await;
    assert!(changes.contains(&Change { id: id("a"), instance: "one".to_owned() }), "{changes:?}");
    assert!(changes.iter().all(|change| change.id != id("b")), "what is the same is no news: {changes:?}");
    assert!(world.cached(&id("b")).is_some());
    asked(&requests, |request| is_secrets(request, true) && request.contains("resourceVersion=20")).await;
}

#[tokio::test]
async fn a_watch_that_ends_early_goes_on_from_its_bookmark() {
    let script = |request: &str, _| {
        let bookmark =
            json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"resourceVersion": "15"}}});
        let first = is_secrets(request, true) && request.contains("resourceVersion=1");
        (first && !request.contains("resourceVersion=15")).then(|| Answer::Ends(vec![bookmark]))
    };
    let (config, requests) = serve(script);
    let world = bounded(KubeWorld::with_config(config, &options())).await.unwrap();
    asked(&requests, |request| is_secrets(request, true) && request.contains("resourceVersion=15")).await;
    let lists = requests.lock().unwrap().iter().filter(|request| is_secrets(request, false)).count();
    assert_eq!(lists, 1, "without listing again");
    let early = world.requests().into_iter().find(|count| count.kind == Kind::Secret && count.outcome == "EndedAtOnce");
    assert_eq!(early.map(|count| count.count), Some(1), "and is counted, and waited for, as a failure");
}

#[tokio::test]
async fn the_answer_to_a_write_is_not_undone_by_an_older_event() {
    let script = |request: &str, _| {
        let event = json!({"type": "MODIFIED", "object": secret("a", 7)});
        match request.split_once('?').map(|(path, _)| path) {
            Some("GET /api/v1/secrets") if is_secrets(request, false) => Some(Answer::Json(200, list(&[secret("a", 5)], 5, ""))),
            Some("GET /api/v1/secrets") if request.contains("resourceVersion=5") => Some(Answer::Stays(vec![event])),
            Some("PATCH /api/v1/namespaces/n/secrets/a") => Some(Answer::Json(200, secret("a", 9))),
            _ => None,
        }
    };
    let (config, _) = serve(script);
    let world = bounded(KubeWorld::with_config(config, &options())).await.unwrap();
    bounded(world.synced()).await;
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "n", "name": "a"}});
    let written = bounded(world.apply(&object)).await.unwrap();
    assert_eq!(written.resource_version(), "9");
    assert_eq!(world.cached(&id("a")).map(|secret: Object| secret.resource_version().to_owned()), Some("9".to_owned()));
}
