//! A program in its image's root folder, where there is nothing else.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use memchr::memmem;
use serde_json::json;
use tempfile::{NamedTempFile, TempDir};
use tf_testing::skip;

use super::{Program, is_root, program, programs};

/// Files of an image in a folder of their own.
fn unpack(name: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, file) in &program(name).image.files {
        let to = root.path().join(path);
        if path.ends_with('/') {
            fs::create_dir_all(to).unwrap();
        } else {
            fs::write(&to, &file.content).unwrap();
            fs::set_permissions(&to, PermissionsExt::from_mode(file.header.mode().unwrap())).unwrap();
        }
    }
    root
}

/// What every runtime puts into a container's `/dev` and a program needs: randomness.
fn devices(root: &Path) {
    fs::create_dir(root.join("dev")).unwrap();
    for (name, minor) in [("random", "8"), ("urandom", "9")] {
        let device = root.join("dev").join(name);
        let made = Command::new("mknod").args(["--mode=666"]).arg(device).args(["c", "1", minor]).status().unwrap();
        assert!(made.success());
    }
}

/// Runs a program with `root` as its root folder, as the image's user.
fn run(root: &Path, program: &str) -> Command {
    fs::set_permissions(root, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new("chroot");
    command.arg("--userspec=65532:65532").arg(root).arg(format!("/{program}"));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

#[test]
fn every_program_starts() {
    if !is_root() {
        return skip::this_test("only root may change the root folder").unwrap();
    }
    for Program { name, executable, .. } in programs() {
        let root = unpack(name);
        let output = run(root.path(), executable).arg("--version").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(said.contains(env!("CARGO_PKG_VERSION")), "{name}: {said}");
    }
}

/// The C library is linked in, and loads no part of its own at run time to look names up.
#[test]
fn names_are_resolved_without_a_library() {
    const NAME: &str = "only-in-this-file.example";
    if !is_root() {
        return skip::this_test("only root may make devices").unwrap();
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{NAME}:{}", server.local_addr().unwrap().port());
    let root = unpack("zookeeper-op");
    devices(root.path());
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/hosts"), format!("127.0.0.1 {NAME}\n")).unwrap();
    // An authority to trust is wanted before anybody is asked for a name. No handshake gets so far that it counts.
    fs::write(root.path().join("ca.crt"), rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap().cert.pem())
        .unwrap();
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": "/ca.crt"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    fs::write(root.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let mut command = run(root.path(), "zookeeper-op");
    command.env("KUBECONFIG", "/kubeconfig").env("LISTEN_ADDRESS", "127.0.0.1:0").env("WATCH_NAMESPACE", "tf");
    let log = NamedTempFile::new().unwrap();
    command.stdout(log.reopen().unwrap()).stderr(log.reopen().unwrap());
    let operator = Running(command.spawn().unwrap());

    let mut stream = accept(&server, Duration::from_secs(20))
        .unwrap_or_else(|| panic!("nobody came by that name: {}", fs::read_to_string(log.path()).unwrap()));
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The record of TLS with which a client begins; it tells in clear whom it wants to speak to.
    let mut head = [0; 5];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[..2], [22, 3], "a handshake");
    let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    stream.read_exact(&mut hello).unwrap();
    assert!(memmem::find(&hello, NAME.as_bytes()).is_some());
    drop(operator);
}

/// Who connects within `limit`.
fn accept(server: &TcpListener, limit: Duration) -> Option<TcpStream> {
    server.set_nonblocking(true).unwrap();
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        match server.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return Some(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
    }
    None
}

/// A process of a test; ends with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
