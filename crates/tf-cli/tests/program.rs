//! The program as kubectl starts it: what it prints, where, and the code with which it ends. No cluster is asked here; `e2e/tests/api/cli.rs`
//! does that.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// What came of a call.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    error: String,
}

impl Ended {
    /// It told what was asked for, and nothing else.
    fn told(self) -> String {
        assert_eq!((self.code, self.error.as_str()), (Some(0), ""), "{self:?}");
        self.out
    }

    /// It could not, and says why in one line.
    fn failed(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        let error = self.error.strip_suffix('\n').and_then(|text| text.strip_prefix("error: "));
        let error = error.unwrap_or_else(|| panic!("{self:?}"));
        assert!(!error.contains('\n'), "{error}");
        error.to_owned()
    }

    /// It was called wrongly: the words of the parser of its arguments.
    fn misunderstood(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        self.error
    }
}

/// The program without anything of the machine's that leads to a cluster.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-tf"));
    command.args(arguments).env_clear().env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

fn call(arguments: &[&str]) -> Ended {
    ended(program(arguments), "")
}

fn ended(mut command: Command, input: &str) -> Ended {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Whoever reads nothing closes it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

/// An empty folder for one test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("program").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn written(file: &Path, content: impl AsRef<[u8]>) -> &str {
    fs::write(file, content).unwrap();
    path(file)
}

fn zookeeper(name: &str, spec: &str) -> String {
    format!("apiVersion: tf.tungsten.io/v1alpha1\nkind: Zookeeper\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: alpha, labels: {node-role.kubernetes.io/control-plane: ''}}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.1}]}\n";

#[test]
fn a_plan_takes_files_folders_and_standard_input_one_after_the_other() {
    let folder = folder("files");
    let first = written(&folder.join("first.yaml"), zookeeper("first", "{}")).to_owned();
    let many = folder.join("many");
    fs::create_dir(&many).unwrap();
    written(&many.join("b.yml"), zookeeper("second", "{}").replace("Zookeeper", "Rabbitmq"));
    written(
        &many.join("a.json"),
        r#"{"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Redis", "metadata": {"name": "third"}}"#,
    );
    written(&many.join("README.md"), "{ no manifest");

    let arguments = ["plan", "--offline", "-n", "tf", "-f", &first, "--filename", path(&many), "-f", "-"];
    let told = ended(program(&arguments), NODE).told();
    for line in [
        "Zookeeper tf/first: members on alpha",
        "Rabbitmq tf/second: members on alpha",
        "Redis tf/third: members on alpha",
    ] {
        assert!(told.lines().any(|it| it == line), "{line:?} is not in\n{told}");
    }
    assert!(told.contains("  + StatefulSet tf/first-zookeeper-statefulset\n"), "{told}");
    assert!(told.ends_with("note: no API server was asked, who checks the rules of the definitions\n"), "{told}");

    let alone = call(&["plan", "--offline", "-f", &first]).told();
    assert!(alone.starts_with("Zookeeper default/first: members on node1, node2, node3\n"), "{alone}");
    assert!(alone.contains("note: the files name no nodes; "), "{alone}");
}

#[test]
fn a_manager_of_r2011_has_zookeeper_and_kube_manager_and_what_has_no_place_is_named() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/r2011-manager.yaml");
    let told = call(&["plan", "-n", "tf", "--offline", "-f", path(&file)]).told();
    for kind in ["Zookeeper tf/zookeeper1", "Kubemanager tf/kubemanager1", "Config tf/config1", "Control tf/control1"] {
        assert!(told.lines().any(|line| line.starts_with(kind)), "{kind} is not in\n{told}");
    }
    let notes: Vec<&str> = told.lines().filter(|line| line.starts_with("note: Manager cluster1: ")).collect();
    for (field, now) in [
        (
            "commonConfiguration.clusterConfig",
            "use clusterName, podSubnet and serviceSubnet in serviceConfiguration of the Kubemanager",
        ),
        ("services.config.spec.serviceConfiguration.logLevel", "use commonConfiguration.logLevel"),
        ("services.config.spec.serviceConfiguration.zookeeperInstance", "use spec.dependencies.zookeeper"),
        ("services.controls[0].spec.serviceConfiguration.cassandraInstance", "use spec.dependencies.cassandra"),
        ("services.vrouters[0].spec.serviceConfiguration.metaDataSecret", "use metadataProxySecret"),
    ] {
        let note = format!("note: Manager cluster1: spec.{field}: Manager has no such field; {now}; it has no effect");
        assert!(notes.contains(&note.as_str()), "{note:?} is not in\n{}", notes.join("\n"));
    }
    assert!(
        !notes.iter().any(|note| note.contains("services.zookeepers:") || note.contains("services.kubemanagers:")),
        "{notes:?}"
    );
}

#[test]
fn misspelt_fields_are_named_in_a_plan_with_the_right_names() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/misspelt-manager.yaml");
    let told = call(&["plan", "-n", "tf", "--offline", "-f", path(&file)]).told();
    for (field, right) in [
        ("services.config.spec.serviceConfiguration.globlaASNNumber", "globalASNNumber"),
        ("services.controls[0].spec.serviceConfiguration.asnNumbr", "asnNumber"),
        ("services.vrouters[0].spec.serviceConfiguration.cniMtu", "cniMTU"),
    ] {
        let note = format!(
            "note: Manager sdn: spec.{field}: Manager has no such field; did you mean {right}?; it has no effect"
        );
        assert!(told.lines().any(|line| line == note), "{note:?} is not in\n{told}");
    }
}

#[test]
fn members_on_dual_stack_nodes_have_the_addresses_of_ipv4_in_whatever_order_nodes_list_them() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/two-families.yaml");
    let manifest = fs::read_to_string(file).unwrap();
    let plan =
        |manifest: &str| ended(program(&["plan", "--offline", "-n", "tf", "-o", "yaml", "-f", "-"]), manifest).out;
    let planned = plan(&manifest);
    for (ipv4, ipv6) in [("10.9.0.1", "fd00:9::a"), ("10.9.0.2", "fd00:9::b"), ("10.9.0.3", "fd00:9::c")] {
        assert!(planned.contains(ipv4) && !planned.contains(ipv6), "{ipv4}, {ipv6}");
    }
    assert!(!planned.contains("192.168.77.3"), "the second address of IPv4 is not used");

    let [ipv6, ipv4] = [r#"{type: InternalIP, address: "fd00:9::b"}"#, "{type: InternalIP, address: 10.9.0.2}"];
    let swapped = manifest.replace(&format!("{ipv6}, {ipv4}"), &format!("{ipv4}, {ipv6}"));
    assert_ne!(manifest, swapped);
    assert!(planned == plan(&swapped), "another order of addresses changed what is made");
}

#[test]
fn an_object_of_the_api_of_2019_is_named_with_what_to_write() {
    let manifest = "apiVersion: contrail.juniper.net/v1alpha1\nkind: Manager\nmetadata: {name: cluster1}\nspec: {}\n"
        .to_owned()
        + "---\n"
        + &zookeeper("a", "{}");
    let told = ended(program(&["plan", "--offline", "-f", "-"]), &manifest).told();
    let note = "note: Manager cluster1 is of contrail.juniper.net, an API that these operators do not have; write it as tf.tungsten.io/v1alpha1, in the shape of examples/manager.yaml";
    assert!(told.lines().any(|line| line == note), "{told}");
}

#[test]
fn a_plan_as_yaml_can_be_read_again_and_what_is_no_object_is_told_beside_it() {
    let manifest = zookeeper("good", "{}") + "---\n" + &zookeeper("bad", "{serviceConfiguration: {clientPort: many}}");
    let given = ended(program(&["plan", "--offline", "-o", "yaml", "-f", "-"]), &manifest);
    assert_eq!(given.code, Some(0), "{given:?}");
    let objects = tf_cli::plan::read(&given.out, "elsewhere").unwrap();
    assert!(
        objects.iter().any(|it| it.metadata.name.as_deref() == Some("good-zookeeper-statefulset")),
        "{}",
        given.out
    );
    assert!(objects.iter().all(|it| it.metadata.namespace.as_deref() == Some("default")), "{}", given.out);
    let notes: Vec<&str> = given.error.lines().collect();
    assert!(
        notes[0].starts_with("Zookeeper default/bad is not valid: spec.serviceConfiguration.clientPort: "),
        "{notes:?}"
    );
    assert!(notes[1..].iter().all(|note| note.starts_with("note: ")) && notes.len() == 3, "{notes:?}");
}

#[test]
fn a_plan_ends_with_code_1_only_where_that_is_asked_for() {
    let folder = folder("codes");
    let good = written(&folder.join("good.yaml"), zookeeper("zk", "{}")).to_owned();
    let bad =
        written(&folder.join("bad.yaml"), zookeeper("zk", "{serviceConfiguration: {agentPort: 2181}}")).to_owned();
    let code = |arguments: &[&str]| call(&[&["plan", "--offline"], arguments].concat()).code;
    assert_eq!(code(&["-f", &good]), Some(0));
    assert_eq!(code(&["-f", &good, "--check"]), Some(1), "objects would be made");
    assert_eq!(code(&["-f", &bad]), Some(0));
    assert_eq!(code(&["-f", &bad, "--check"]), Some(1), "it is refused");
    assert_eq!(code(&["-f", &good, "-f", path(&folder.join("missing.yaml"))]), Some(2));
}

#[test]
fn a_manifest_that_cannot_be_read_is_named_with_why() {
    let folder = folder("unreadable");
    let plan = |file: &str| call(&["plan", "--offline", "-f", file]).failed();
    let starts = |told: String, expected: String| assert!(told.starts_with(&expected), "{told}\n{expected}");

    let missing = path(&folder.join("missing.yaml")).to_owned();
    starts(plan(&missing), format!("{missing}: No such file or directory"));
    let bytes = written(&folder.join("bytes.yaml"), [0xff, 0xfe]).to_owned();
    starts(plan(&bytes), format!("{bytes}: stream did not contain valid UTF-8"));
    let other = written(&folder.join("other.yaml"), "a: 1").to_owned();
    starts(plan(&other), format!("{other}: document 1: apiVersion and kind are missing"));
    let node = written(&folder.join("node.yaml"), NODE.replace("labels: {", "labels: {a: [], ")).to_owned();
    assert!(plan(&node).contains("alpha") || plan(&node).starts_with(&node), "{}", plan(&node));
    let syntax = written(&folder.join("syntax.yaml"), "password: hunter2\na: [1").to_owned();
    let told = plan(&syntax);
    assert!(told.starts_with(&format!("{syntax}: ")) && told.contains("line 2") && !told.contains("hunter2"), "{told}");
    assert_eq!(told.matches("unclosed").count(), 1, "{told}");

    let empty = written(&folder.join("empty.yaml"), "").to_owned();
    assert_eq!(plan(&empty), "the manifests are empty");
    let nothing = folder.join("nothing");
    fs::create_dir(&nothing).unwrap();
    assert_eq!(plan(path(&nothing)), "the manifests are empty");
    let inner = folder.join("inner").join("folder.yaml");
    fs::create_dir_all(&inner).unwrap();
    starts(plan(path(inner.parent().unwrap())), format!("{}: Is a directory", inner.display()));
    assert_eq!(call(&["plan", "--offline", "-f", "-"]).failed(), "the manifests are empty");
}

#[test]
fn what_it_is_asked_wrongly_is_said_with_what_is_possible() {
    let help = call(&["status", "--help"]).told();
    assert!(help.contains("Usage: kubectl tf status [OPTIONS]"), "{help}");
    assert!(
        ["--all-namespaces", "--check", "--context", "--daemons", "--kubeconfig", "--namespace", "--output", "--watch"]
            .iter()
            .all(|option| help.contains(option))
    );
    assert!(call(&["plan", "--help"]).told().contains("Usage: kubectl tf plan [OPTIONS] --filename <FILE>"));
    assert_eq!(call(&["--version"]).told(), format!("kubectl-tf {}\n", env!("CARGO_PKG_VERSION")));
    for (arguments, expected) in [
        (&[][..], "Usage: kubectl tf <COMMAND>"),
        (&["explain"], "unrecognized subcommand 'explain'"),
        (&["plan"], "--filename <FILE>"),
        (&["plan", "-f", "-", "-o", "json"], "[possible values: text, yaml]"),
        (&["plan", "-f", "-", "--offline", "--context", "a"], "'--offline' cannot be used with '--context <CONTEXT>'"),
        (&["status", "-o", "yaml"], "[possible values: text, json]"),
        (&["status", "-A", "-n", "tf"], "'--all-namespaces' cannot be used with '--namespace <NAMESPACE>'"),
        (&["status", "--watch", "--check"], "'--watch' cannot be used with '--check'"),
    ] {
        let told = call(arguments).misunderstood();
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
}

/// A kubeconfig for a cluster at this port of this machine.
fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: lab\ncontexts: [{{name: lab, context: {{cluster: lab, user: lab}}}}]\n\
         clusters: [{{name: lab, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\nusers: [{{name: lab, user: {{}}}}]\n"
    )
}

#[test]
fn without_a_cluster_it_says_so() {
    let folder = folder("cluster");
    let manifest = written(&folder.join("zk.yaml"), zookeeper("zk", "{}")).to_owned();
    let both = |arguments: &[&str]| {
        let status = call(&[&["status"], arguments].concat()).failed();
        assert_eq!(call(&[&["plan", "-f", &manifest], arguments].concat()).failed(), status);
        assert_eq!(call(&[&["lock"], arguments].concat()).failed(), status);
        status
    };
    let told = both(&[]);
    assert!(told.starts_with("neither a kubeconfig nor a cluster around this program: "), "{told}");
    let missing = path(&folder.join("missing")).to_owned();
    let told = both(&["--kubeconfig", &missing]);
    assert!(told.starts_with(&format!("{missing}: ")), "{told}");
    assert_eq!(told.matches("No such file").count(), 1, "{told}");
    let broken = written(&folder.join("broken"), "users: [{name: a, user: {token: hunter2, username: []}}]").to_owned();
    let told = both(&["--kubeconfig", &broken]);
    assert!(told.starts_with(&format!("{broken}: ")) && !told.contains("hunter2"), "{told}");

    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let away = written(&folder.join("away"), kubeconfig(port)).to_owned();
    let told = both(&["--kubeconfig", &away, "--context", "other"]);
    assert!(told.starts_with("the kubeconfig: ") && told.contains("other"), "{told}");
    let told = both(&["--kubeconfig", &away]);
    assert!(told.starts_with("asking the API server: ") && told.contains("refused"), "{told}");
    assert_eq!(call(&["status", "--check", "--kubeconfig", &away]).code, Some(2), "nothing is known");
}

/// A port at which an API server answers everything with this.
fn answering(status: &str, body: &str) -> u16 {
    let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn what_may_not_be_read_is_told_where_programs_read_the_rest_and_is_not_ready() {
    let folder = folder("forbidden");
    let port = answering(
        "403 Forbidden",
        r#"{"kind": "Status", "status": "Failure", "message": "you may not", "reason": "Forbidden", "code": 403}"#,
    );
    let config = written(&folder.join("config"), kubeconfig(port)).to_owned();
    let ended = call(&["status", "--check", "-o", "json", "--kubeconfig", &config]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "[]\n"), "{ended:?}");
    assert!(ended.error.contains("note: zookeepers: you may not\n"), "{ended:?}");
    assert_eq!(
        call(&["lock", "-n", "tf", "--kubeconfig", &config]).failed(),
        "pods in tf could not be read: you may not"
    );
    let port = answering("200 OK", "<html>");
    let config = written(&folder.join("page"), kubeconfig(port)).to_owned();
    let told = call(&["status", "--kubeconfig", &config]).failed();
    assert!(told.starts_with("asking the API server: "), "{told}");
    let told = call(&["lock", "--kubeconfig", &config]).failed();
    assert!(told.starts_with("asking the API server: "), "{told}");
}
