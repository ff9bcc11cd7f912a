//! scratch
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::json;
use vko_e2e::instance::Instance;
use vko_e2e::losses::Bound;
use vko_e2e::writer::Writer;
use vko_e2e::*;
use vko_e2e::search::*;

#[test]
fn scratch() -> Result {
    let ns = "scratch";
    kubectl::apply("default", &operator::namespace_manifest(ns))?;
    let sec = json!({"runAsNonRoot": true, "runAsUser": 999, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let labels = json!({"buf.red/name": "x", "valkey.buf.red/role": "master"});
    for o in [
        json!({"apiVersion":"v1","kind":"Secret","metadata":{"name":"failover-acl-x-default-secret"},"stringData":{"password":"pw1Abcdefgh"}}),
        json!({"apiVersion":"v1","kind":"Service","metadata":{"name":"rfr-x-readwrite"},"spec":{"selector":labels,"ports":[{"port":6379}],"publishNotReadyAddresses":true}}),
        json!({"apiVersion":"v1","kind":"Pod","metadata":{"name":"rfr-x-0","labels":labels},"spec":{"containers":[{"name":"valkey","image":"docker.io/valkey/valkey:9.1","command":["sh","-c","echo 'requirepass pw1Abcdefgh' | exec /usr/local/bin/valkey-server - "],"workingDir":"/data","securityContext":sec,"volumeMounts":[{"name":"d","mountPath":"/data"}]}],"volumes":[{"name":"d","emptyDir":{}}]}}),
    ] { kubectl::apply(ns, &o.to_string())?; }
    kubectl::wait(ns, "pod/rfr-x-0", "condition=Ready", std::time::Duration::from_secs(60))?;
    let i = Instance { namespace: ns.into(), name: "x".into() };
    let p = i.primary()?;
    println!("{p:?}");
    i.wait_writable()?;
    let w = Writer::start(&i.writer()?);
    w.wait_acks(3000)?;
    w.stop()?.verify(&i.writer()?, "scratch", Bound::Seconds(0.0))?;
    let inside = inside::Inside::start(env!("CARGO_BIN_EXE_vko-writer"), &p.node, &i.at(&p, "default")?)?;
    let cut = bed::partition(&p.node)?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    let told = inside.stop()?;
    cut.end()?;
    println!("{told:?} {}", inside::unix_ms());
    println!("{:?}", bed::processes(&p.uid, "valkey-server")?);
    let needles = [Needle::new("default", &i.password("default")?)];
    let mut f = Findings::default();
    objects(&mut f, &needles, ns)?;
    logs(&mut f, &needles, ns)?;
    for pod in i.pod_objects()? { println!("{}", processes(&mut f, &needles, &pod, &["/etc/valkey-accounts"])?); }
    println!("{f:#?}");
    let n = operator::name(&i.pod_objects()?[0]).to_owned();
    kubectl::patch(ns, &format!("pod/{n}"), &json!({"metadata":{"labels":{"valkey.buf.red/role":"replica"}}}))?;
    let watched = kubectl::named(ns, "pods", "metadata.name=rfr-x-0");
    println!("{}", kubectl::watch_until("label", watched, std::time::Duration::from_secs(10), |_, o| o["metadata"]["labels"]["valkey.buf.red/role"] == "replica").is_ok());
    println!("{:#}", kubectl::watch_until("never", watched, std::time::Duration::from_secs(3), |_, o| o["metadata"]["labels"]["valkey.buf.red/role"] == "x").unwrap_err());
    kubectl::run(&["delete", "namespace", ns, "--wait=false"])?;
    Ok(())
}
