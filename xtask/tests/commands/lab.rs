//! `cargo xtask lab`: a cluster that stays between commands.

use std::path::Path;

use tf_testing::{folder, process};

use crate::Labs;

#[test]
fn a_lab_goes_up_is_listed_runs_commands_with_their_exit_codes_and_goes_down_without_a_trace() {
    const NAME: &str = "commands";
    let labs = Labs::new();
    let on = |verb: &[&str]| labs.run(&[&["lab"], verb].concat());
    let exec = |command: &[&str]| labs.run(&[&["lab", "exec", "--name", NAME, "--"], command].concat());

    let up = on(&["up", "--tier", "api", "--name", NAME]);
    assert!(up.status.success(), "{up:?}");
    // Alone on standard output, for `eval "$(cargo xtask lab up)"`.
    let kubeconfig = up.output.strip_prefix("export KUBECONFIG=").and_then(|rest| rest.strip_suffix('\n')).unwrap();
    assert!(Path::new(kubeconfig).is_file(), "{kubeconfig:?}");
    assert!(up.errors.contains(&format!("lab down --name {NAME}")), "{up:?}");

    let again = on(&["up", "--tier", "api", "--name", NAME]);
    assert!(!again.status.success() && again.errors.contains("there is a lab \"commands\" already"), "{again:?}");

    let (folder, _) = folder::find(&labs.root(), NAME).unwrap();
    let records = process::records(&folder).unwrap();
    assert_eq!(records.iter().map(|record| record.spec.name.as_str()).collect::<Vec<_>>(), ["etcd", "kube-apiserver"]);
    let status = on(&["status"]);
    assert!(status.output.starts_with("commands  api, https://127.0.0.1:"), "{status:?}");
    for record in &records {
        assert!(record.identity.is_alive());
        let listed = status.output.lines().find(|line| line.trim_start().starts_with(&record.spec.name)).unwrap();
        let words: Vec<&str> = listed.split_whitespace().collect();
        assert_eq!(words[1], record.identity.pid.to_string(), "{listed}");
        assert_eq!(words[3], "MiB", "it runs: {listed}");
    }

    let namespaces = exec(&["kubectl", "get", "ns", "-o", "name"]);
    assert!(namespaces.status.success() && namespaces.output.contains("namespace/kube-system\n"), "{namespaces:?}");
    assert_eq!(exec(&["sh", "-c", "echo $KUBECONFIG"]).output.trim_end(), kubeconfig);
    assert_eq!(exec(&["sh", "-c", "exit 7"]).status.code(), Some(7));

    let down = on(&["down", "--name", NAME]);
    assert!(down.status.success(), "{down:?}");
    assert!(records.iter().all(|record| !record.identity.is_alive()));
    assert!(!folder.path().exists());
    labs.assert_gone();
    assert_eq!(on(&["status"]).output, "there is no lab\n");
    let gone = exec(&["true"]);
    assert!(!gone.status.success() && gone.errors.contains("there is no lab \"commands\""), "{gone:?}");
}
