#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// The view of a node of three shards: `a` with the replicas `r` and `s`, `b`, `c`.
fn view(of: &str) -> Nodes {
    seen(of, "a", "0-5460", "a")
}

/// The same, where `owner` has the slots of the first shard and `r` follows `parent`.
fn seen(of: &str, owner: &str, slots: &str, parent: &str) -> Nodes {
    let mut text = String::new();
    for (id, follows, own) in
        [("a", "-", ""), ("b", "-", "5461-10922"), ("c", "-", "10923-16383"), ("r", parent, ""), ("s", "a", "")]
    {
        let (follows, own) = if id == owner { ("-", slots) } else { (follows, own) };
        let role = if follows == "-" { "master" } else { "slave" };
        let flags = if id == of { format!("myself,{role}") } else { role.to_owned() };
        text += &format!("{id} 10.0.0.1:6379@16379 {flags} {follows} 0 0 1 connected {own}\n");
    }
    Nodes::parse(&text).unwrap()
}

fn at(lineage: &str, offset: u64) -> Position {
    Position { lineage: lineage.to_owned(), offset }
}

fn copy_at(lineage: &str, offset: u64) -> Copy {
    Copy { position: at(lineage, offset), before: None, holds: true }
}

fn answers(id: &str, copy: Copy) -> (String, Peer) {
    (id.to_owned(), Peer::Answers(view(id), copy))
}

/// The two other primaries, and what else there is.
fn with_majority(others: impl IntoIterator<Item = (String, Peer)>) -> Peers {
    let mut peers: Peers = ["b", "c"].map(|id| answers(id, copy_at(id, 1))).into();
    peers.extend(others);
    peers
}

fn one(id: &str, peer: Peer) -> [(String, Peer); 1] {
    [(id.to_owned(), peer)]
}

const HOLDS: Verdict = Verdict::Hold(Hold::NoMajority(1, 3));

#[test]
fn own_data_against_those_of_replicas() {
    let rdb = |offset| Own::Rdb(Some(at("L", offset)));
    let never_synced = || Copy { position: at("X", 1), before: None, holds: false };
    let emptied = || Copy { holds: false, ..copy_at("L", 200) };
    let grew = |end| Copy { before: Some(at("L", end)), ..copy_at("M", 200) };
    let s_holds = || [answers("r", never_synced()), answers("s", copy_at("L", 90))];
    let ask = |id: &str| Verdict::Ask(id.to_owned());
    let start = Verdict::Start;
    let r = |copy| with_majority([answers("r", copy), answers("s", never_synced())]);
    let cases = [
        ("a log", Own::Aof, r(copy_at("L", 900)), start(Start::Log)),
        ("as far as the replica", rdb(100), r(copy_at("L", 100)), start(Start::Complete)),
        ("further", rdb(101), r(copy_at("L", 100)), start(Start::Complete)),
        ("behind", rdb(99), r(copy_at("L", 100)), ask("r")),
        ("behind a replica that was emptied by order", rdb(99), r(emptied()), ask("r")),
        ("behind, and the replica went on in another lineage", rdb(99), r(grew(150)), ask("r")),
        ("the replica left the lineage earlier", rdb(160), r(grew(150)), ask("r")),
        ("of another lineage", rdb(900), r(copy_at("M", 1)), ask("r")),
        ("without a lineage", Own::Rdb(None), r(copy_at("L", 1)), ask("r")),
        ("nothing", Own::Nothing, r(copy_at("L", 1)), ask("r")),
        ("nothing, and nobody else has", Own::Nothing, r(never_synced()), start(Start::Complete)),
        ("a file, and the replica never had any", rdb(100), r(never_synced()), start(Start::Complete)),
        ("nothing, one of two replicas has data", Own::Nothing, with_majority(s_holds()), ask("s")),
        (
            "the furthest of two",
            Own::Nothing,
            with_majority([answers("r", copy_at("L", 5)), answers("s", copy_at("L", 7))]),
            ask("s"),
        ),
        (
            "the first of equals",
            Own::Nothing,
            with_majority([answers("r", copy_at("L", 5)), answers("s", copy_at("L", 5))]),
            ask("r"),
        ),
        ("no majority", Own::Nothing, [answers("b", copy_at("b", 1)), answers("r", copy_at("L", 5))].into(), HOLDS),
        ("complete, no majority", rdb(5), [answers("r", copy_at("L", 5))].into(), start(Start::Complete)),
    ];
    for (name, own, peers, expected) in cases {
        assert_eq!(decide(&view("a"), &own, &peers, &Memory::default()), expected, "{name}");
    }
}

#[test]
fn silence_loading_and_memory() {
    let rdb = Own::Rdb(Some(at("L", 5)));
    let waited = || Memory { waited: true, ..Memory::default() };
    let seen = || Memory { waited: true, better: ["r".to_owned()].into(), ..Memory::default() };
    let empty = || answers("r", Copy { holds: false, ..copy_at("X", 1) });
    let nobody = || with_majority([]);
    let loads = || with_majority(one("s", Peer::Loading));
    let hold = Verdict::Hold;
    let start = Verdict::Start;
    let cases = [
        ("nobody answers", Own::Nothing, nobody(), Memory::default(), hold(Hold::ReplicasSilent)),
        ("nobody answers, with a file", rdb.clone(), nobody(), Memory::default(), hold(Hold::ReplicasSilent)),
        ("nobody answered in time", Own::Nothing, nobody(), waited(), start(Start::NobodyAnswers)),
        ("one has nothing, one is silent", Own::Nothing, with_majority([empty()]), Memory::default(), hold(Hold::ReplicasSilent)),
        ("the same, in time", Own::Nothing, with_majority([empty()]), waited(), start(Start::NobodyAnswers)),
        (
            "one confirms, one is silent",
            rdb,
            with_majority([answers("r", copy_at("L", 5))]),
            Memory::default(),
            start(Start::Complete),
        ),
        ("one loads", Own::Nothing, loads(), Memory::default(), hold(Hold::ReplicaLoads)),
        ("one still loads", Own::Nothing, loads(), waited(), hold(Hold::ReplicaLoads)),
        ("the one with the data fell silent", Own::Nothing, nobody(), seen(), hold(Hold::BetterCopySilent)),
    ];
    for (name, own, peers, memory, expected) in cases {
        assert_eq!(decide(&view("a"), &own, &peers, &memory), expected, "{name}");
    }
}

#[test]
fn who_has_nothing_to_lose_starts_at_once() {
    let lone = Nodes::parse("a :0@0 myself,master - 0 0 1 connected 0-16383\n").unwrap();
    let without_slots = seen("a", "b", "0-10922", "a");
    for file in [lone, without_slots, view("r")] {
        let verdict = decide(&file, &Own::Nothing, &Peers::new(), &Memory::default());
        assert_eq!(verdict, Verdict::Start(Start::NothingToLose), "{file:?}");
    }
}

#[test]
fn after_a_takeover_it_starts() {
    let verdict =
        |peers| decide(&view("a"), &Own::Nothing, &peers, &Memory { better: ["r".to_owned()].into(), ..Memory::default() });
    let new = |slots| Peer::Answers(seen("r", "r", slots, "-"), copy_at("M", 9));
    assert_eq!(verdict(one("r", new("0-5460")).into()), Verdict::Start(Start::TakenOver));
    // A part of the slots is a move of slots, not a takeover.
    assert_eq!(verdict(one("r", new("0-99")).into()), Verdict::Hold(Hold::BetterCopySilent));
    // Only what a node says of itself counts.
    let hearsay = Peer::Answers(seen("b", "r", "0-5460", "-"), copy_at("b", 1));
    assert_eq!(verdict(one("b", hearsay).into()), Verdict::Hold(Hold::BetterCopySilent));
}

#[test]
fn replicas_that_went_to_others_are_nobodys_loss() {
    let peers = ["r", "s"].map(|id| {
        let view = Nodes::parse(&format!(
            "{id} 10.0.0.2:1@2 myself,slave b 0 0 1 connected\nb 10.0.0.3:1@2 master - 0 0 1 connected 5461-10922\n"
        ));
        (id.to_owned(), Peer::Answers(view.unwrap(), copy_at("B", 9)))
    });
    let verdict = decide(&view("a"), &Own::Nothing, &peers.into(), &Memory::default());
    assert_eq!(verdict, Verdict::Start(Start::NobodyFollows));
}

#[test]
fn who_had_more_is_remembered_until_it_answers_otherwise() {
    let none = || Copy { holds: false, ..copy_at("X", 1) };
    let elsewhere = Peer::Answers(seen("r", "a", "0-5460", "b"), copy_at("B", 9));
    let cases = [
        ("it falls silent", one("r", Peer::Silent), true),
        ("it loads", one("r", Peer::Loading), true),
        ("it still has more", [answers("r", copy_at("L", 9))], true),
        ("it has lost it", [answers("r", none())], false),
        ("it follows another", one("r", elsewhere), false),
        ("another has less", [answers("s", none())], true),
    ];
    for (name, peers, expected) in cases {
        let mut memory = Memory::default();
        memory.note(&view("a"), &Own::Nothing, &[answers("r", copy_at("L", 5)), answers("b", copy_at("b", 5))].into());
        assert_eq!(memory.better, ["r".to_owned()].into());
        memory.note(&view("a"), &Own::Nothing, &peers.into());
        assert_eq!(memory.better.contains("r"), expected, "{name}");
    }
}

#[test]
fn replicas_are_asked_in_turn() {
    let peers = with_majority([answers("r", copy_at("L", 5)), answers("s", copy_at("L", 7))]);
    for (asked, expected) in
        [(vec![], "s"), (vec!["s"], "r"), (vec!["s", "r"], "s"), (vec!["s", "r", "s"], "r"), (vec!["r"], "s")]
    {
        let memory = Memory { asked: asked.iter().map(|id| (*id).to_owned()).collect(), ..Memory::default() };
        assert_eq!(decide(&view("a"), &Own::Nothing, &peers, &memory), Verdict::Ask(expected.to_owned()), "{asked:?}");
    }
}

#[test]
fn a_copy_by_its_info() {
    let info = "role:slave\r\nslave_repl_offset:7\r\nmaster_replid:L\r\nmaster_replid2:K\r\nmaster_repl_offset:7\r\n\
                second_repl_offset:5\r\nnumber_of_functions:0\r\ndb0:keys=3,expires=0,avg_ttl=0\r\n";
    assert_eq!(copy(info), Some(Copy { position: at("L", 7), before: Some(at("K", 4)), holds: true }));
    let info = "role:master\r\nmaster_replid:L\r\nmaster_replid2:0\r\nmaster_repl_offset:8\r\nsecond_repl_offset:-1\r\n";
    assert_eq!(copy(info), Some(Copy { position: at("L", 8), before: None, holds: false }));
    assert!(copy(&format!("{info}number_of_functions:1\r\n")).unwrap().holds);
    assert_eq!(copy("role:master\r\n"), None);
}
