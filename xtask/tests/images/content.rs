//! What is in the images of programs.

use std::collections::BTreeSet;

use memchr::memmem;
use serde_json::Value;

use super::{Program, folder, programs};

#[test]
fn an_image_holds_an_executable_its_materials_and_licences_and_nothing_else() {
    for Program { executable, image, .. } in programs() {
        let materials = format!("usr/share/sbom/{executable}.cdx.json");
        let mut expected = BTreeSet::from(["licenses/", "licenses/LICENSE", "licenses/THIRD-PARTY", executable]);
        expected.extend(["usr/", "usr/share/", "usr/share/sbom/", &materials]);
        assert_eq!(image.files.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
        let times: BTreeSet<_> = image.files.values().map(|file| file.header.mtime().unwrap()).collect();
        assert_eq!(times.len(), 1, "one time for all");
        for (path, file) in &image.files {
            assert_eq!((file.header.uid().unwrap(), file.header.gid().unwrap()), (0, 0), "{path} is root's");
            assert_eq!(file.header.mode().unwrap() & 0o6022, 0, "{path} is written by nobody else and gives no rights");
        }
    }
}

#[test]
fn the_executable_needs_no_loader_and_no_library() {
    for Program { name, executable, image } in programs() {
        let content = &image.files[*executable].content;
        assert_eq!(&content[..5], b"\x7fELF\x02", "an executable of 64 bits");
        assert!(!segments(content).contains(&INTERPRETER), "{name} asks for a loader");
    }
}

/// Type of the segment that names the loader.
const INTERPRETER: u32 = 3;

/// Types of an ELF file's segments.
fn segments(elf: &[u8]) -> Vec<u32> {
    let number = |at: usize, length: usize| {
        elf[at..at + length].iter().rev().fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).map(|index| number(table + index * size, 4) as u32).collect()
}

#[test]
fn materials_list_what_is_linked_and_not_what_only_builds() {
    for Program { name, executable, image } in programs() {
        let inside = &image.files[&format!("usr/share/sbom/{executable}.cdx.json")].content;
        let beside = std::fs::read(folder().join(format!("{name}.cdx.json"))).unwrap();
        assert_eq!(*inside, beside);
        let materials: Value = serde_json::from_slice(inside).unwrap();
        assert_eq!((&materials["bomFormat"], &materials["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
        assert_eq!(materials["metadata"]["component"]["name"], *executable);
        let components = materials["components"].as_array().unwrap();
        let names: BTreeSet<_> = components.iter().map(|component| component["name"].as_str().unwrap()).collect();
        for linked in ["glibc", "rust-std", "serde_json", "tf-agent-api", "tokio"] {
            assert!(names.contains(linked), "{linked} is not listed for {name}");
        }
        for builds in ["cc", "proc-macro2", "serde_derive", "syn", "proptest", "tf-testing"] {
            assert!(!names.contains(builds), "{builds} is listed for {name}");
        }
        // Types of resources need kube's macros; only operators plan and have what speaks to an API server.
        for operators in ["kube-client", "tf-plan"] {
            assert_eq!(names.contains(operators), *executable != "tf-node", "{operators} in {name}");
        }
        let known: BTreeSet<_> = components
            .iter()
            .chain([&materials["metadata"]["component"]])
            .collect::<Vec<_>>()
            .into_iter()
            .map(|component| component["bom-ref"].as_str().unwrap())
            .collect();
        for edge in materials["dependencies"].as_array().unwrap() {
            let used = edge["dependsOn"].as_array().unwrap().iter().chain([&edge["ref"]]);
            assert!(used.map(|reference| reference.as_str().unwrap()).all(|reference| known.contains(reference)));
        }
        for component in components.iter().filter(|component| component.get("purl").is_some()) {
            assert!(component.get("licenses").is_some(), "{component}");
            let purl = format!("pkg:cargo/{}@{}", text(component, "name"), text(component, "version"));
            assert_eq!(text(component, "purl"), purl);
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

#[test]
fn licences_name_every_foreign_package_that_is_linked() {
    for Program { name, executable, image } in programs() {
        let notices = String::from_utf8(image.files["licenses/THIRD-PARTY"].content.clone()).unwrap();
        let materials = &image.files[&format!("usr/share/sbom/{executable}.cdx.json")].content;
        let materials: Value = serde_json::from_slice(materials).unwrap();
        let components = materials["components"].as_array().unwrap().iter();
        for package in components.filter(|component| component.get("purl").is_some()) {
            let title = format!("{} {}", text(package, "name"), text(package, "version"));
            assert!(notices.contains(&title), "no licence of {title} in {name}");
        }
        assert!(notices.contains("Permission is hereby granted, free of charge"));
    }
}

#[test]
fn executables_tell_nothing_of_the_machine_that_built_them() {
    let mut machine: BTreeSet<String> = BTreeSet::new();
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    machine.insert(repository.display().to_string());
    machine.insert(env!("CARGO_TARGET_TMPDIR").trim_end_matches("/tmp").to_owned());
    for (variable, value) in std::env::vars() {
        let secret = ["TOKEN", "SECRET", "PASSWORD", "KEY"].iter().any(|word| variable.contains(word));
        if secret && value.len() >= 8 {
            machine.insert(value);
        } else if ["CARGO_HOME", "HOME", "RUSTUP_HOME"].contains(&&*variable) && value.len() > 1 {
            // With what follows: </root> is in the configuration of logs.
            machine.insert(format!("{}/", value.trim_end_matches('/')));
        }
    }
    // The host of a registry's mirror is part of the name of the folder that its sources are in.
    machine.insert("/registry/src/".into());
    for Program { name, image, .. } in programs() {
        for (path, file) in &image.files {
            for value in &machine {
                let found = memmem::find(&file.content, value.as_bytes());
                assert_eq!(found, None, "/{path} of {name} holds {value}");
            }
        }
    }
}
