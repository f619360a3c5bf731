//! A program in its image's root folder, where there is nothing else.

use std::{
    fs,
    io::Read as _,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use super::{Image, folder, is_root, programs, skip};

/// Files of an image in a folder of their own.
fn unpack(name: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, file) in Image::read(&folder().join(format!("{name}.tar"))).files {
        let to = root.path().join(&path);
        if path.ends_with('/') {
            fs::create_dir_all(to).unwrap();
        } else {
            fs::write(&to, file.content).unwrap();
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
        return skip("scratch::every_program_starts", "only root may change the root folder");
    }
    for (name, executable) in programs() {
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
    if !is_root() {
        return skip("scratch::names_are_resolved_without_a_library", "only root may make devices");
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let root = unpack("zookeeper-op");
    devices(root.path());
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/hosts"), "127.0.0.1 only-in-this-file.example\n").unwrap();
    let kubeconfig = format!(
        r#"{{"clusters": [{{"name": "c", "cluster": {{"server": "http://only-in-this-file.example:{port}"}}}}],
            "users": [{{"name": "u", "user": {{}}}}], "current-context": "x",
            "contexts": [{{"name": "x", "context": {{"cluster": "c", "user": "u"}}}}]}}"#
    );
    fs::write(root.path().join("kubeconfig"), kubeconfig).unwrap();
    let mut command = run(root.path(), "zookeeper-op");
    command.env("KUBECONFIG", "/kubeconfig").env("LISTEN_ADDRESS", "127.0.0.1:0").env("WATCH_NAMESPACE", "tf");
    let operator = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());

    // Ends with the operator at the latest.
    let accepted = std::thread::spawn(move || server.accept().map(|(stream, _)| stream));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !accepted.is_finished() && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(accepted.is_finished(), "the operator reached nobody by that name");
    let mut stream = accepted.join().unwrap().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut request = [0; 4];
    stream.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"GET ");
    drop(operator);
}

/// A process of a test; ends with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
