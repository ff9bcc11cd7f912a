//! INFO of real servers, and what becomes of failures.

use vko_core::command::{Command, ConfigValue, Reply};
use vko_core::secret::Secret;
use vko_core::world::ServerError;
use vko_model::accounts::ServerRole;
use vko_model::info::Role;
use vko_model::{Info, Line};
use vko_valkey::Administration;

use crate::support::{Server, call, code, eventually};

async fn info(servers: &Administration, server: &Server, command: Command) -> Info {
    match call(servers, &server.target("operator"), command).await.unwrap() {
        Reply::Text(text) => Info::parse(&text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_primary_says_all_that_a_full_look_needs() {
    for line in Line::ALL {
        let server = Server::start(line, "maxmemory 64mb\n");
        server.run(&["SET", "k", "v"]);
        let servers = Administration::new();
        let full = info(&servers, &server, Command::FullInfo).await;
        assert_eq!(full.line(), Some(Ok(line)));
        assert_eq!((full.role, full.keys, full.max_memory), (Some(Role::Primary), Some(1), Some(64 << 20)), "{line}");
        assert_eq!(
            (full.loading, full.saving, full.aof_enabled, full.last_save_ok),
            (Some(false), Some(false), Some(false), Some(true)),
            "{line}"
        );
        assert_eq!(full.run_id.as_ref().map(String::len), Some(40), "{line}");
        assert_eq!(full.replid.as_ref().map(String::len), Some(40), "{line}");
        assert_eq!((full.primary_offset, full.second_replid.as_deref(), full.second_offset), (Some(0), Some(""), None), "{line}");
        assert_eq!(
            (full.replicas_count, full.good_replicas, full.link_up, full.primary()),
            (Some(0), None, None, None),
            "{line}"
        );
        assert_eq!(full.failover_state.as_deref(), Some("no-failover"), "{line}");
        assert_eq!(full.max_memory_policy.as_deref(), Some("noeviction"), "{line}");
        assert!(full.used_memory > Some(0) && full.connected_clients > Some(0) && full.total_connections > Some(0), "{line}");
        assert!(full.uptime_seconds.is_some() && full.last_save_seconds > Some(0) && full.unsaved_changes == Some(1), "{line}");
        assert!(full.keys_loaded == Some(0) && full.aof_write_ok == Some(true) && full.evicted_keys == Some(0), "{line}");
        assert!(full.full_syncs == Some(0) && full.partial_syncs == Some(0), "{line}");
        let light = info(&servers, &server, Command::LightProbe).await;
        assert_eq!((light.run_id, light.version, light.role), (full.run_id, full.version, full.role), "{line}");
        assert_eq!((light.keys, light.used_memory), (full.keys, None), "{line}: keys are counted; not asked is unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_writes_show_from_8_1_on() {
    for line in Line::ALL {
        let server = Server::start_as(ServerRole::Failover, line, "");
        let servers = Administration::new();
        let shown = |so: bool| (line > Line::V7_2).then_some(so);
        assert_eq!(info(&servers, &server, Command::FullInfo).await.writes_paused, shown(false), "{line}");
        let pause = Command::PauseWrites { time_ms: 600_000 };
        assert_eq!(call(&servers, &server.target("operator"), pause).await, Ok(Reply::Done), "{line}");
        assert_eq!(info(&servers, &server, Command::FullInfo).await.writes_paused, shown(true), "{line}");
        assert_eq!(call(&servers, &server.target("operator"), Command::Unpause).await, Ok(Reply::Done), "{line}");
        assert_eq!(info(&servers, &server, Command::FullInfo).await.writes_paused, shown(false), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_logins() {
    for line in Line::ALL {
        let server = Server::start(line, "");
        let servers = Administration::new();
        for (user, password) in [("operator", "wrong"), ("operator", ""), ("nobody", "x"), ("default", "x")] {
            let mut target = server.target(user);
            target.credential.password = Secret::new(password);
            let refused = call(&servers, &target, Command::Role).await;
            assert!(
                matches!(&refused, Err(ServerError::Login(text)) if text.starts_with("WRONGPASS")),
                "{line} {user}: {refused:?}"
            );
        }
        assert!(call(&servers, &server.target("operator"), Command::Role).await.is_ok(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_primary_refuses_writes_and_counts_its_replicas() {
    for line in Line::ALL {
        let server = Server::start(line, "min-replicas-max-lag 5\n");
        let (servers, operator) = (Administration::new(), server.target("operator"));
        let fence = |height: &str| Command::ConfigSet(vec![("min-replicas-to-write".into(), ConfigValue::Text(height.into()))]);
        let mut client = server.plain(Some("tester"));
        for (height, outcome, good) in [("1", "NOREPLICAS", Some(0)), ("0", "OK", None)] {
            assert_eq!(call(&servers, &operator, fence(height)).await, Ok(Reply::Done), "{line}");
            assert_eq!(code(&mut client, &["SET", "k", "v"]), outcome, "{line} {height}");
            assert_eq!(info(&servers, &server, Command::LightProbe).await.good_replicas, good, "{line} {height}");
        }
        let refused = call(&servers, &operator, fence("many")).await;
        assert!(matches!(&refused, Err(ServerError::Refused { code, .. }) if code == "ERR"), "{line}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loads_says_how_far_it_is() {
    for line in Line::ALL {
        let server = Server::start(line, "");
        server.run(&["EVAL", "for i = 1, 2000 do redis.call('SET', 'key:' .. i, string.rep('x', 1000)) end", "0"]);
        server.run(&["SAVE"]);
        // Slow enough to be met while it loads: 2000 keys of 5 ms each, with a look at the network for each KB.
        let slow = "key-load-delay 5000\nloading-process-events-interval-bytes 1024\n";
        let server = server.restart(slow, "Server initialized");
        let servers = Administration::new();
        let mut seen = Info::default();
        for _ in 0..100 {
            match call(&servers, &server.target("operator"), Command::LightProbe).await {
                Ok(Reply::Text(text)) => seen = Info::parse(&text),
                // Not listening yet.
                Err(ServerError::Lost(_)) => continue,
                other => panic!("{line}: {other:?}"),
            }
            break;
        }
        assert_eq!(seen.loading, Some(true), "{line}: {seen:?}");
        assert!(seen.loading_percent.is_some(), "{line}: {seen:?}");
        assert_eq!(
            call(&servers, &server.target("operator"), Command::BackgroundSave).await,
            Err(ServerError::Loading),
            "{line}"
        );
        server.run(&["CONFIG", "SET", "key-load-delay", "0"]);
        eventually("loaded", || server.info().loading == Some(false));
        assert_eq!((server.info().keys, server.info().keys_loaded), (Some(2000), Some(2000)), "{line}");
    }
}
