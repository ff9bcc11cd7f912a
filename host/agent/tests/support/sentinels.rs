//! Sentinels that the agent started.

use super::{Client, Member, address, eventually, password};

impl Member {
    /// A Sentinel; nothing runs yet.
    pub(crate) fn sentinel(line: &'static str) -> Self {
        let number = super::NEXT.fetch_add(1, super::Ordering::Relaxed);
        let member = Self::with_folders("sentinel", line, address(number), 26379);
        member.write("conf/sentinel.conf", "loglevel notice\nsentinel deny-scripts-reconfig yes\n");
        member
    }

    /// Watches a primary.
    pub(crate) fn monitor(&self, primary: &Member, quorum: &str) {
        let (ip, port) = (primary.ip.to_string(), primary.port.to_string());
        let mut client = self.client();
        assert_eq!(client.text(&["SENTINEL", "MONITOR", "mymaster", &ip, &port, quorum]), "OK");
        let login = ["auth-user", "sentinel", "auth-pass", password("sentinel")];
        assert_eq!(client.text(&[&["SENTINEL", "SET", "mymaster"], login.as_slice()].concat()), "OK");
    }

    /// A field of what a Sentinel says of the primary.
    pub(crate) fn watched(&self, field: &str) -> String {
        let said = self.client().text(&["SENTINEL", "MASTER", "mymaster"]);
        let mut words = said.lines();
        words.by_ref().find(|word| *word == field);
        words.next().unwrap_or_default().to_owned()
    }
}

/// Three Sentinels that know each other and all replicas.
pub(crate) fn three(line: &'static str, primary: &Member, replicas: usize) -> Vec<Member> {
    let sentinels: Vec<Member> = (0..3).map(|_| Member::sentinel(line).start()).collect();
    for sentinel in &sentinels {
        sentinel.monitor(primary, "2");
    }
    eventually("they know each other and the replicas", || {
        sentinels.iter().all(|sentinel| {
            sentinel.watched("num-other-sentinels") == "2" && sentinel.watched("num-slaves") == replicas.to_string()
        })
    });
    eventually("the replicas are in reach", || sentinels.iter().all(|sentinel| in_reach(&mut sentinel.client(), replicas)));
    sentinels
}

fn in_reach(client: &mut Client, replicas: usize) -> bool {
    let said = client.text(&["SENTINEL", "REPLICAS", "mymaster"]);
    said.matches("master-link-status\nok").count() == replicas && !said.contains("disconnected")
}
