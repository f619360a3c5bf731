//! Circles of imports between the files of a crate: none but those of a module and its children.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};
use syn::{
    Attribute, ItemMod, ItemUse, UseTree,
    visit::{self, Visit},
};

use crate::generate::walk;

/// Crates that have none.
const CRATES: [&str; 7] =
    ["tf-agent-api", "tf-api", "tf-config-api", "tf-config-files", "tf-contrail", "tf-pki", "tf-plan"];

/// The modules of each circle, for people.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for name in CRATES {
        let circles = of(&modules(&root.join("crates").join(name).join("src"))?)?;
        lines.extend(circles.iter().map(|circle| {
            format!("crates/{name}/src: these files import each other in a circle: {}", circle.join(", "))
        }));
    }
    Ok(lines)
}

/// Text of each module that is a file, by its path in the crate. The root of the crate is no part of a circle: it has every module below it.
fn modules(src: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for path in walk(src)?.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let parts = path.strip_prefix(src)?.with_extension("");
        let mut parts: Vec<String> = parts.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        parts.pop_if(|last| last == "mod");
        found.insert(parts.join("::"), fs::read_to_string(&path)?);
    }
    ensure!(!found.is_empty(), "{} has no file", src.display());
    found.remove("lib");
    found.remove("main");
    Ok(found)
}

/// The circles among modules.
fn of(modules: &BTreeMap<String, String>) -> Result<Vec<Vec<String>>> {
    let mut read = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for (module, text) in modules {
        let mut imports = Imports { module: module.split("::").map(str::to_owned).collect(), ..Imports::default() };
        imports.visit_file(&syn::parse_file(text).with_context(|| module.clone())?);
        tests.extend(imports.tests.iter().map(|path| path.join("::")));
        read.insert(module.as_str(), imports.paths);
    }
    let is_test = |module: &str| tests.iter().any(|test| is_within(module, test));
    let mut graph = DiGraphMap::<&str, ()>::new();
    for (module, paths) in read.iter().filter(|(module, _)| !is_test(module)) {
        for path in paths {
            // The file is that of the longest part of the path that is a module.
            let file = (1..=path.len()).rev().find_map(|length| read.get_key_value(&*path[..length].join("::")));
            if let Some((used, _)) = file
                && !is_within(module, used)
                && !is_within(used, module)
            {
                graph.add_edge(module, used, ());
            }
        }
    }
    let mut circles: Vec<Vec<String>> = tarjan_scc(&graph)
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .map(|circle| circle.into_iter().map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect())
        .collect();
    circles.sort();
    Ok(circles)
}

/// Whether a module is another one or below it.
fn is_within(module: &str, parent: &str) -> bool {
    module.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// What a file uses of its crate, tests aside.
#[derive(Default)]
struct Imports {
    /// The module that is being read: the file's, or one inside it.
    module: Vec<String>,
    /// Paths from the root of the crate.
    paths: BTreeSet<Vec<String>>,
    /// Modules that are compiled for tests alone.
    tests: Vec<Vec<String>>,
}

impl Imports {
    /// Notes a path if it begins in the crate.
    fn note(&mut self, path: &[String]) {
        let mut rest = path;
        let mut base = match rest.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            _ => return,
        };
        while let Some(("crate" | "self" | "super", tail)) = rest.split_first().map(|(first, tail)| (&**first, tail)) {
            if rest[0] == "super" {
                base.pop();
            }
            rest = tail;
        }
        base.extend(rest.iter().cloned());
        self.paths.insert(base);
    }

    fn tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => self.note(before),
            UseTree::Name(name) => self.note(&with(&name.ident)),
            UseTree::Rename(name) => self.note(&with(&name.ident)),
            UseTree::Glob(_) => self.note(before),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(before, item)),
        }
    }
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        if is_for_tests(&item.attrs) {
            self.tests.push(self.module.clone());
        } else {
            visit::visit_item_mod(self, item);
        }
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.tree(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|ident| ident == "test")
    };
    attributes.iter().any(is_test)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(modules: &[(&str, &str)]) -> Vec<Vec<String>> {
        of(&modules.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()).unwrap()
    }

    #[test]
    fn files_that_use_each_other_are_a_circle_however_they_spell_it() {
        let three = [
            ("a", "use crate::{b::B as Other, c};"),
            ("b", "fn f() -> super::c::C { crate::c::f() }"),
            ("c", "mod inside { use crate::a; }"),
            ("d", "use crate::a;"),
        ];
        assert_eq!(circles(&three), [["a", "b", "c"]]);
    }

    #[test]
    fn a_module_and_its_children_are_none_and_tests_use_what_they_like() {
        let modules = [
            ("a", "mod b; use self::b::B; #[cfg(test)] mod tests;"),
            ("a::b", "use super::A;"),
            ("a::tests", "use crate::c::C;"),
            ("c", "use crate::a::A; #[cfg(test)] mod tests { use crate::d::D; }"),
            ("d", "use crate::c; use std::fmt;"),
        ];
        assert!(circles(&modules).is_empty());
    }
}
