//! The rendered configuration: accepted by every line, and repeated by CONFIG GET as it was rendered.

use std::collections::BTreeMap;

use vko_model::Line;
use vko_model::accounts::ServerRole;
use vko_model::config::{HOST_OWNED, ServerConf, directives, sentinel_conf, server_conf};

use crate::support::Server;

#[test]
fn every_line_takes_it_and_repeats_it() {
    let settings =
        [("maxmemory-policy", "allkeys-lru"), ("notify-keyspace-events", ""), ("proc-title-template", "{title} it's \"x\" \\")];
    let settings: BTreeMap<_, _> = settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let none = BTreeMap::new();
    let cases = |line| {
        let plain = ServerConf { role: ServerRole::Replica, line, on_claim: false, memory_limit: None, settings: &none };
        [
            ServerConf { on_claim: true, memory_limit: Some(256 << 20), settings: &settings, ..plain.clone() },
            ServerConf { memory_limit: Some(1 << 30), ..plain.clone() },
            ServerConf { role: ServerRole::Cluster, on_claim: true, ..plain.clone() },
            plain,
        ]
    };
    for line in Line::ALL {
        for conf in &cases(line) {
            let server = Server::start_as(conf.role, line, &server_conf(conf).unwrap());
            let wanted = directives(conf).unwrap();
            let get: Vec<&str> = ["CONFIG", "GET"].into_iter().chain(wanted.keys().map(String::as_str)).collect();
            let live: BTreeMap<String, String> = redis::from_redis_value(server.run(&get)).unwrap();
            assert_eq!(live, wanted, "{line}");
        }
    }
}

#[test]
fn a_setting_of_several_words_is_taken_as_one_value() {
    for line in Line::ALL {
        let settings = BTreeMap::from([
            ("save".to_owned(), "900 1 60 5".to_owned()),
            ("client-output-buffer-limit".to_owned(), "replica 512mb 128mb 30".to_owned()),
        ]);
        let conf = ServerConf { role: ServerRole::Replica, line, on_claim: false, memory_limit: None, settings: &settings };
        let server = Server::start(line, &server_conf(&conf).unwrap());
        let live = format!(
            "{:?}",
            [server.run(&["CONFIG", "GET", "save"]), server.run(&["CONFIG", "GET", "client-output-buffer-limit"])]
        );
        assert!(live.contains("900 1 60 5") && live.contains("slave 536870912 134217728 30"), "{line}: {live}");
    }
}

#[test]
fn every_line_of_sentinels_takes_theirs() {
    let settings = BTreeMap::from([("loglevel".to_owned(), "verbose".to_owned())]);
    for line in Line::ALL {
        let server = Server::start_as(ServerRole::Sentinel, line, &sentinel_conf(&settings).unwrap());
        assert!(format!("{:?}", server.run(&["INFO", "sentinel"])).contains("sentinel_masters:0"), "{line}");
    }
}

#[test]
fn what_is_owned_exists_so_that_the_table_stays_true() {
    // Not in CONFIG GET on any line: they are words of the configuration only. primaryauth and primaryuser exist from 8.1 on.
    let words_only = ["include", "loadmodule", "rename-command", "sentinel", "user"];
    let newest = Server::start(Line::V9_1, "");
    for (name, _) in HOST_OWNED.iter().filter(|(name, _)| !words_only.contains(name)) {
        let answer = format!("{:?}", newest.run(&["CONFIG", "GET", name]));
        assert!(answer.contains(name), "{name} is no directive: {answer}");
    }
}
