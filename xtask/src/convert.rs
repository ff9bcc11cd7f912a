//! Generates `host/engine/src/v0/convert.rs`: the conversions between the boundary's types (made by wit-bindgen, used by
//! everything) and wasmtime's (made by its own macro, used by the engine alone). Both come from the same WIT, so the code follows
//! from it.
//!
//! # Flow
//! 1. The world's functions say which types go to the guest and which come back; types that they hold go the same way.
//! 2. What goes to the guest is converted from a reference (the host keeps its observation), what comes back by value.
//! 3. Generics of WIT that the interface doesn't use (tuples, nested options ...) are refused with their name, not guessed.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use wit_parser::{Interface, Resolve, Type, TypeDefKind, TypeId, TypeOwner, WorldId, WorldItem};

use crate::workspace::Workspace;

const SOURCE: &str = "wit/policy.wit";
const FILE: &str = "host/engine/src/v0/convert.rs";
const HEADER: &str = "// @generated from wit/policy.wit by `cargo xtask convert`. Change that, not this.
//! Conversions between the boundary's types and wasmtime's: to the guest from a reference, to the host by value.

use super::bindings as wire;

";

/// Writes the file, or says that it is stale.
pub(crate) fn write(workspace: &Workspace, check: bool) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(workspace.root.join(SOURCE))?;
    let world = resolve.select_world(&[package], Some("policy"))?;
    let text = format(workspace, &generate(&resolve, world)?)?;
    let file = workspace.root.join(FILE);
    if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    ensure!(!check, "{FILE} is stale: run 'cargo xtask convert'");
    std::fs::write(&file, text).with_context(|| format!("{} can't be written", file.display()))?;
    println!("wrote {FILE}");
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToGuest,
    ToHost,
}

fn generate(resolve: &Resolve, world: WorldId) -> Result<String> {
    let mut found = Found { resolve, to_guest: BTreeSet::new(), to_host: BTreeSet::new() };
    let world = &resolve.worlds[world];
    for (items, parameters, result) in [(&world.exports, Way::ToGuest, Way::ToHost), (&world.imports, Way::ToHost, Way::ToGuest)]
    {
        for item in items.values() {
            let WorldItem::Interface { id, .. } = item else { continue };
            for function in resolve.interfaces[*id].functions.values() {
                function.params.iter().for_each(|parameter| found.add(parameter.ty, parameters));
                function.result.iter().for_each(|ty| found.add(*ty, result));
            }
        }
    }
    let exported: BTreeSet<_> = world.exports.values().filter_map(interface_of).collect();
    let names = Names { resolve, exported };
    let mut text = String::from(HEADER);
    for (types, way) in [(&found.to_guest, Way::ToGuest), (&found.to_host, Way::ToHost)] {
        for id in types {
            conversion(&names, *id, way, &mut text)?;
        }
    }
    Ok(text)
}

fn interface_of(item: &WorldItem) -> Option<wit_parser::InterfaceId> {
    match item {
        WorldItem::Interface { id, .. } => Some(*id),
        _ => None,
    }
}

/// Named types by the way they go, in the order of their definition.
struct Found<'a> {
    resolve: &'a Resolve,
    to_guest: BTreeSet<TypeId>,
    to_host: BTreeSet<TypeId>,
}

impl Found<'_> {
    fn add(&mut self, ty: Type, way: Way) {
        let Type::Id(id) = resolved(self.resolve, ty) else { return };
        let definition = &self.resolve.types[id];
        let known = match way {
            Way::ToGuest => &mut self.to_guest,
            Way::ToHost => &mut self.to_host,
        };
        if definition.name.is_some() && !known.insert(id) {
            return;
        }
        for held in held_types(&definition.kind) {
            self.add(held, way);
        }
    }
}

fn held_types(kind: &TypeDefKind) -> Vec<Type> {
    match kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| field.ty).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().filter_map(|case| case.ty).collect(),
        TypeDefKind::Option(ty) | TypeDefKind::List(ty) => vec![*ty],
        TypeDefKind::Result(result) => result.ok.into_iter().chain(result.err).collect(),
        _ => Vec::new(),
    }
}

/// The type behind aliases.
fn resolved(resolve: &Resolve, mut ty: Type) -> Type {
    while let Type::Id(id) = ty {
        match resolve.types[id].kind {
            TypeDefKind::Type(behind) => ty = behind,
            _ => break,
        }
    }
    ty
}

struct Names<'a> {
    resolve: &'a Resolve,
    exported: BTreeSet<wit_parser::InterfaceId>,
}

impl Names<'_> {
    /// Path of a named type below the root of either set of bindings.
    fn path(&self, id: TypeId) -> Result<String> {
        let definition = &self.resolve.types[id];
        let name = definition.name.as_deref().context("a type without a name has no path")?;
        let TypeOwner::Interface(owner) = definition.owner else { bail!("type {name} is outside of any interface") };
        let interface: &Interface = &self.resolve.interfaces[owner];
        let package = interface.package.context("an interface without a package")?;
        let package = &self.resolve.packages[package].name;
        let prefix = if self.exported.contains(&owner) { "exports::" } else { "" };
        let module = interface.name.as_deref().context("an interface without a name")?;
        Ok(format!("{prefix}{}::{}::{}::{}", snake(&package.namespace), snake(&package.name), snake(module), camel(name)))
    }

    /// A value of that type, converted. `place` is a field (`v.x`) or what a match bound (`x`).
    fn expression(&self, ty: Type, place: &str, way: Way, bound: bool) -> Result<String> {
        let ty = resolved(self.resolve, ty);
        let by_reference = way == Way::ToGuest;
        let Type::Id(id) = ty else {
            return Ok(match (ty, by_reference, bound) {
                (Type::String, true, _) => format!("{place}.clone()"),
                (_, true, true) => format!("*{place}"),
                _ => place.to_owned(),
            });
        };
        let definition = &self.resolve.types[id];
        Ok(match (&definition.kind, by_reference) {
            (TypeDefKind::Option(inner), true) if self.is_copy(*inner) => format!("{}{place}", if bound { "*" } else { "" }),
            (TypeDefKind::Option(inner) | TypeDefKind::List(inner), true) if self.is_plain(*inner) => format!("{place}.clone()"),
            (TypeDefKind::Option(inner) | TypeDefKind::List(inner), false) if self.is_plain(*inner) => place.to_owned(),
            (TypeDefKind::Option(inner), true) if self.is_named(*inner) => format!("{place}.as_ref().map(Into::into)"),
            (TypeDefKind::Option(inner), false) if self.is_named(*inner) => format!("{place}.map(Into::into)"),
            (TypeDefKind::List(inner), true) if self.is_named(*inner) => format!("{place}.iter().map(Into::into).collect()"),
            (TypeDefKind::List(inner), false) if self.is_named(*inner) => {
                format!("{place}.into_iter().map(Into::into).collect()")
            }
            _ if definition.name.is_none() => bail!("xtask convert does not know {} here; teach it", definition.kind.as_str()),
            (_, true) if !bound => format!("(&{place}).into()"),
            _ => format!("{place}.into()"),
        })
    }

    /// A primitive or a string.
    fn is_plain(&self, ty: Type) -> bool {
        !matches!(resolved(self.resolve, ty), Type::Id(_))
    }

    fn is_copy(&self, ty: Type) -> bool {
        !matches!(resolved(self.resolve, ty), Type::Id(_) | Type::String)
    }

    fn is_named(&self, ty: Type) -> bool {
        matches!(resolved(self.resolve, ty), Type::Id(id) if self.resolve.types[id].name.is_some())
    }
}

fn conversion(names: &Names<'_>, id: TypeId, way: Way, text: &mut String) -> Result<()> {
    let path = names.path(id)?;
    let (from, to) = match way {
        Way::ToGuest => (format!("vko_wit::{path}"), format!("wire::{path}")),
        Way::ToHost => (format!("wire::{path}"), format!("vko_wit::{path}")),
    };
    let parameter = if way == Way::ToGuest { format!("&{from}") } else { from.clone() };
    writeln!(text, "impl From<{parameter}> for {to} {{ fn from(v: {parameter}) -> Self {{")?;
    match &names.resolve.types[id].kind {
        TypeDefKind::Record(record) => {
            writeln!(text, "Self {{")?;
            for field in &record.fields {
                let name = snake(&field.name);
                writeln!(text, "{name}: {},", names.expression(field.ty, &format!("v.{name}"), way, false)?)?;
            }
            writeln!(text, "}}")?;
        }
        TypeDefKind::Variant(variant) => {
            writeln!(text, "match v {{")?;
            for case in &variant.cases {
                let name = camel(&case.name);
                match case.ty {
                    Some(ty) => writeln!(text, "{from}::{name}(x) => Self::{name}({}),", names.expression(ty, "x", way, true)?)?,
                    None => writeln!(text, "{from}::{name} => Self::{name},")?,
                }
            }
            writeln!(text, "}}")?;
        }
        TypeDefKind::Enum(names) => {
            writeln!(text, "match v {{")?;
            for case in &names.cases {
                let name = camel(&case.name);
                writeln!(text, "{from}::{name} => Self::{name},")?;
            }
            writeln!(text, "}}")?;
        }
        other => bail!("xtask convert does not know {} ({path}); teach it", other.as_str()),
    }
    writeln!(text, "}} }}\n")?;
    Ok(())
}

fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    name.split('-').map(capital).collect()
}

/// The interface uses no Rust keyword as a name; the compiler would say so.
fn snake(name: &str) -> String {
    name.replace('-', "_")
}

fn format(workspace: &Workspace, text: &str) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(workspace.root.join("rustfmt.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("rustfmt can't be run; 'rustup component add rustfmt'")?;
    // It reads all before it writes, so this can't fill both pipes. Dropping stdin ends the input.
    rustfmt.stdin.take().context("rustfmt has no stdin")?.write_all(text.as_bytes())?;
    let output = rustfmt.wait_with_output()?;
    ensure!(output.status.success(), "rustfmt refused the generated conversions");
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(body: &str) -> Result<String> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("case.wit", &format!("package a:b;\n{body}"))?;
        let world = resolve.select_world(&[package], None)?;
        generate(&resolve, world)
    }

    #[test]
    fn each_type_is_converted_the_way_it_goes() -> Result<()> {
        let text = generated(
            "interface t { enum e { one-case } record in { when: u64, who: string, what: list<e>, may: option<u8> } variant out { none, some(in) } }
             interface f { use t.{in, out}; go: func(x: in) -> result<out, string>; }
             world w { export f; }",
        )?;
        for line in [
            "impl From<&vko_wit::a::b::t::In> for wire::a::b::t::In",
            "when: v.when,",
            "who: v.who.clone(),",
            "what: v.what.iter().map(Into::into).collect(),",
            "may: v.may,",
            "impl From<&vko_wit::a::b::t::E> for wire::a::b::t::E",
            "vko_wit::a::b::t::E::OneCase => Self::OneCase,",
            "impl From<wire::a::b::t::Out> for vko_wit::a::b::t::Out",
            "wire::a::b::t::Out::Some(x) => Self::Some(x.into()),",
            "impl From<wire::a::b::t::In> for vko_wit::a::b::t::In",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("for wire::a::b::t::Out"), "what only comes back is not converted to the guest");
        Ok(())
    }

    #[test]
    fn what_it_does_not_know_is_refused_by_name() {
        let body = "interface t { record r { x: list<option<string>> } } interface f { use t.{r}; go: func(x: r); } world w { export f; }";
        let error = generated(body).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("option") || error.contains("list"), "{error}");
    }
}
