//! The architecture's invariants as far as manifests show them: which crate may know what. Dev-dependencies are free, tests may
//! wire anything together.

use crate::workspace::Package;

/// Crates that only some packages may depend on. Tests' applications and the end-to-end tests stand outside: they look at an
/// instance as its users do.
struct Rule {
    /// Dependencies, by name; with `+feature` the rule is about those who ask for that feature.
    dependency: &'static [&'static str],
    /// Packages that may.
    only: &'static [&'static str],
    why: &'static str,
}

const RULES: [Rule; 6] = [
    Rule {
        dependency: &["kube+client", "kube+runtime", "kube-client", "kube-runtime"],
        only: &["vko-kube", "vko-e2e"],
        why: "only host/kube talks to a Kubernetes API; the others act through the world trait",
    },
    Rule {
        dependency: &["redis"],
        only: &["vko-valkey", "vko-clients", "vko-e2e"],
        why: "only host/valkey talks to servers; the others act through the world trait",
    },
    Rule {
        dependency: &["wasmtime", "wasmtime-environ", "cranelift-codegen"],
        only: &["vko-engine"],
        why: "only host/engine runs wasm; the others see policies as a trait",
    },
    Rule {
        dependency: &["vko-kube", "vko-valkey", "vko-engine"],
        only: &["vko-run", "vko-operator", "vko-mock", "vko-e2e"],
        why: "what wires the worlds together is host/run, for the operator's main and the mock host, and nothing below it",
    },
    Rule {
        dependency: &["vko-mock", "vko-apiserver"],
        only: &["vko-mock", "vko-local", "vko-script"],
        why: "an image has no use for a Kubernetes in memory: host/local is a program of its own",
    },
    Rule {
        dependency: &["wit-parser", "wit-component"],
        only: &["xtask", "vko-operator"],
        why: "components are made when building or packing, never when deciding",
    },
];

/// All that policies may build on: they are pure functions, and so is what the host knows of Valkey as data.
const GUESTS_MAY: [&str; 5] = ["serde", "serde_json", "vko-model", "vko-sdk", "vko-wit"];

/// The packages that do not take the workspace's lints, with the reason.
const OWN_LINTS: [(&str, &str); 1] = [("vko-wit", "wit-bindgen's code uses unsafe")];

/// What is broken, one line each.
pub(crate) fn violations(packages: &[Package]) -> Vec<String> {
    let guests: Vec<&str> = packages.iter().filter(|package| is_guest(package)).map(|package| package.name.as_str()).collect();
    packages.iter().flat_map(|package| violations_of(package, &guests)).collect()
}

fn is_guest(package: &Package) -> bool {
    package.folder.starts_with("guests/")
}

fn violations_of(package: &Package, guests: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for rule in RULES.iter().filter(|rule| !rule.only.contains(&package.name.as_str())) {
        for (dependency, features) in &package.dependencies {
            let named = rule.dependency.iter().any(|named| match named.split_once('+') {
                Some((name, feature)) => name == dependency && features.iter().any(|asked| asked == feature),
                None => named == dependency,
            });
            if named {
                found.push(format!("{} depends on {dependency}: {}", package.folder, rule.why));
            }
        }
    }
    if is_guest(package) {
        let strangers = package.dependencies.iter().map(|(name, _)| name.as_str());
        for name in strangers.filter(|name| !GUESTS_MAY.contains(name) && !guests.contains(name)) {
            found.push(format!(
                "{} depends on {name}: a policy may build on {} and other policies only",
                package.folder,
                GUESTS_MAY.join(", ")
            ));
        }
    }
    if !package.inherits_lints && !OWN_LINTS.iter().any(|(name, _)| *name == package.name) {
        found.push(format!("{}/Cargo.toml lacks '[lints] workspace = true'", package.folder));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|dependency| {
            let mut words = dependency.split('+');
            (words.next().unwrap_or_default().to_owned(), words.map(String::from).collect())
        });
        Package { name: name.into(), folder: folder.into(), dependencies: dependencies.collect(), inherits_lints: true }
    }

    #[test]
    fn each_invariant_has_a_package_that_breaks_it_and_one_that_keeps_it() {
        let cases = [
            ("what is known of Valkey as data is for policies too", package("vko-sdk", "guests/sdk", &["vko-model"]), ""),
            ("the client is for host/kube", package("vko-core", "host/core", &["kube+client"]), "world trait"),
            ("its runtime too", package("vko-operator", "host/operator", &["kube+derive+runtime"]), "world trait"),
            ("custom resources are derived anywhere", package("vko-api", "host/api", &["kube+derive"]), ""),
            ("host/kube may", package("vko-kube", "host/kube", &["kube+client+runtime"]), ""),
            ("servers are for host/valkey", package("vko-agent", "host/agent", &["redis"]), "host/valkey"),
            ("wasm is for host/engine", package("vko-core", "host/core", &["wasmtime"]), "host/engine"),
            ("host/engine may", package("vko-engine", "host/engine", &["wasmtime", "vko-core"]), ""),
            ("core knows no world", package("vko-core", "host/core", &["vko-kube"]), "wires"),
            ("the operator has no Kubernetes in it", package("vko-operator", "host/operator", &["vko-mock"]), "of its own"),
            ("a policy is pure", package("vko-replica", "guests/replica", &["vko-sdk", "tokio"]), "tokio"),
            ("a policy may reuse another", package("vko-replica", "guests/replica", &["vko-replica", "serde_json"]), ""),
        ];
        for (name, package, expected) in cases {
            let found = violations(&[package]).join("\n");
            assert_eq!(found.is_empty(), expected.is_empty(), "{name}: {found}");
            assert!(found.contains(expected), "{name}: {found}");
        }
    }

    #[test]
    fn lints_are_inherited_unless_the_table_says_why_not() {
        let bare = |name: &str, folder: &str| Package { inherits_lints: false, ..package(name, folder, &[]) };
        assert_eq!(violations(&[bare("vko-wit", "wit")]), Vec::<String>::new());
        assert_eq!(violations(&[bare("vko-core", "host/core")]).len(), 1);
    }
}
