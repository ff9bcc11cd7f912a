#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn line(text: &str) -> Result<Command, ArgsError> {
    parse(text.split_whitespace().map(OsString::from))
}

const SERVE: &str = "serve --server /bin/server --conf /conf --accounts /accounts --data /data --ip fd00::5 --port 6379";
const PROBE: &str = "--accounts /accounts --ip 127.0.0.1 --port 6379 --run /run/valkey --timeout-ms 900";

#[test]
fn serve_takes_its_flags() {
    let Command::Serve(serve) = line(SERVE).unwrap() else { panic!("another command") };
    assert_eq!((serve.ip.to_string().as_str(), serve.port, serve.start_file.as_str()), ("fd00::5", 6379, "start"));
    let Command::Serve(serve) = line(&format!("{SERVE} --start-file=other")).unwrap() else { panic!("another command") };
    assert_eq!(serve.start_file, "other");
}

#[test]
fn both_probes_and_the_hook_take_theirs() {
    let Command::Live(live) = line(&format!("probe live {PROBE}")).unwrap() else { panic!("another command") };
    assert_eq!(Ok(Command::Ready(live)), line(&format!("probe ready {PROBE}")));
    let Command::PreStop(stop) = line("hook pre-stop --conf /c --accounts /a --ip ::1 --port 1 --grace-ms 120000").unwrap()
    else {
        panic!("another command")
    };
    assert_eq!(stop.grace, Duration::from_secs(120));
    let words = vec!["/bin/x".to_owned(), "--port".to_owned(), "1".to_owned()];
    assert_eq!(line("tied 7 /bin/x --port 1"), Ok(Command::Tied { starter: 7, words }));
    assert_eq!(line("install /opt/agent"), Ok(Command::Install { destination: "/opt/agent".into() }));
}

#[test]
fn the_mode_is_data_unless_it_is_said() {
    let mode = |text: &str| match line(text).unwrap() {
        Command::Serve(serve) => (serve.mode, serve.identity),
        Command::Live(probe) | Command::Ready(probe) => (probe.mode, String::new()),
        Command::PreStop(stop) => (stop.mode, String::new()),
        other => panic!("{other:?}"),
    };
    let stop = "hook pre-stop --conf /c --accounts /a --ip ::1 --port 1 --grace-ms 1";
    let cases = [
        (SERVE.to_owned(), Mode::Data, ""),
        (format!("{SERVE} --mode cluster"), Mode::Cluster, ""),
        (format!("{SERVE} --mode=sentinel --identity uid.rfs-a-0"), Mode::Sentinel, "uid.rfs-a-0"),
        (format!("probe live {PROBE}"), Mode::Data, ""),
        (format!("probe ready {PROBE} --mode cluster"), Mode::Cluster, ""),
        (stop.to_owned(), Mode::Data, ""),
        (format!("{stop} --mode failover"), Mode::Failover, ""),
        (format!("{stop} --mode sentinel"), Mode::Sentinel, ""),
    ];
    for (text, expected, identity) in cases {
        assert_eq!(mode(&text), (expected, identity.to_owned()), "{text}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let invalid = |flag, value: &str, wanted| Err(ArgsError::ValueInvalid(flag, value.to_owned(), wanted));
    let cases: [(&str, Result<Command, ArgsError>); 19] = [
        ("", Err(ArgsError::CommandUnknown(String::new()))),
        ("probe sideways", Err(ArgsError::CommandUnknown("probe sideways".to_owned()))),
        ("install", Err(ArgsError::FlagMissing("DEST, one file to write, "))),
        ("tied 7", Err(ArgsError::CommandUnknown("tied 7".to_owned()))),
        ("tied me /bin/x", invalid("PID", "me", "a process id")),
        (&format!("{SERVE} --verbose 1"), Err(ArgsError::FlagUnknown("--verbose".to_owned()))),
        (&format!("{SERVE} verbose"), Err(ArgsError::FlagUnknown("verbose".to_owned()))),
        (&format!("{SERVE} --port 1"), Err(ArgsError::FlagRepeated("--port".to_owned()))),
        (&format!("{SERVE} --start-file"), Err(ArgsError::ValueMissing("--start-file".to_owned()))),
        (&format!("{SERVE} --start-file ../x"), invalid("start-file", "../x", "a file's name without its folder")),
        (&format!("{SERVE} --mode failover"), invalid("mode", "failover", "data, cluster or sentinel")),
        (&format!("{SERVE} --mode sentinel"), Err(ArgsError::FlagMissing("identity"))),
        (&format!("{SERVE} --mode sentinel --identity="), invalid("identity", "", "a text that no other Sentinel has")),
        (&format!("{SERVE} --identity x"), Err(ArgsError::FlagUnknown("--identity".to_owned()))),
        ("hook pre-stop --mode x", invalid("mode", "x", "data, failover, cluster or sentinel")),
        ("probe live --accounts /a --ip ::1", Err(ArgsError::FlagMissing("port"))),
        ("probe live --accounts /a --ip valkey --port 1", invalid("ip", "valkey", "an IP address")),
        ("probe live --accounts /a --ip ::1 --port 0", invalid("port", "0", "a port (1 to 65535)")),
        (
            "probe live --accounts /a --ip ::1 --port 1 --run /r --timeout-ms 0",
            invalid("timeout-ms", "0", "a number of milliseconds (1 to 3600000)"),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(line(text), expected, "{text}");
    }
}

#[test]
fn the_local_address_is_of_the_family_and_a_loopback_stays() {
    for (ip, local, none) in [
        ("10.1.2.3", "127.0.0.1", "127.0.0.1"),
        ("127.3.2.1", "127.3.2.1", "127.0.0.1"),
        ("fd00::5", "::1", "::1"),
        ("::1", "::1", "::1"),
    ] {
        let ip: IpAddr = ip.parse().unwrap();
        assert_eq!((local_address(ip).to_string().as_str(), loopback(ip).to_string().as_str()), (local, none));
    }
}
