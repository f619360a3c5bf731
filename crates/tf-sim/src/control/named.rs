//! contrail-named, and the files that contrail-dns writes for it (upstream `named_config.cc`). It opens the ports that they name and refuses every
//! question over TCP; nobody tells it over its control channel to read them anew.

use std::{fs, net::Ipv4Addr, path::Path};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
};

use super::options::Named;
use crate::{
    exit::{Exit, exception, usage},
    http, log,
};

/// Name of the program.
pub const NAME: &str = "contrail-named";
/// Port of the control channel, which cannot be moved.
const CONTROL: u16 = 8094;

/// Writes the files, as contrail-dns does when it starts.
///
/// # Errors
/// When their directory cannot be written.
pub fn write(named: &Named) -> Result<()> {
    let Named { file, rndc, secret, log, port } = named;
    let folder = file.parent().unwrap_or_else(|| Path::new("/")).display();
    let key = format!("key \"rndc-key\" {{\n    algorithm hmac-md5;\n    secret \"{secret}\";\n}};\n\n");
    let options = format!(
        "options {{\n    directory \"{folder}\";\n    empty-zones-enable no;\n    pid-file \"{folder}/contrail-named.pid\";\n    \
         listen-on port {port} {{ any; }};\n}};\n\n"
    );
    let controls = format!(
        "controls {{\n    inet 127.0.0.1 port {CONTROL}\n    allow {{ 127.0.0.1; }}  keys {{ \"rndc-key\"; }};\n}};\n\n"
    );
    let logging =
        format!("logging {{\n    channel debug_log {{\n        file \"{log}\" versions 3 size 5m;\n    }};\n}};\n");
    let of_rndc = format!(
        "options {{\n    default-key \"rndc-key\";\n    default-server 127.0.0.1;\n    default-port {CONTROL};\n}};\n"
    );
    fs::write(rndc, format!("{key}{of_rndc}")).with_context(|| rndc.display().to_string())?;
    fs::write(file, format!("{options}{key}{controls}{logging}")).with_context(|| file.display().to_string())
}

/// Plays it until somebody ends it.
///
/// # Errors
/// What ends it.
pub async fn run(arguments: &[String]) -> Result<(), Exit> {
    let file = file(arguments)?;
    let text = fs::read_to_string(&file).map_err(|error| exception(format!("{file}: {error}")))?;
    let port = read(&text).ok_or_else(|| exception(format!("{file}: no port, or no key of its control channel")))?;
    let everywhere = Ipv4Addr::UNSPECIFIED;
    let socket = UdpSocket::bind((everywhere, port)).await;
    let socket = socket.map_err(|error| exception(format!("port {port}: {error}")))?;
    let questions = http::listen((everywhere.into(), port)).await?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = questions.accept().await {
            tokio::spawn(refuse(stream));
        }
    });
    let orders = http::listen((Ipv4Addr::LOCALHOST.into(), CONTROL)).await?;
    tokio::spawn(async move { while orders.accept().await.is_ok() {} });
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while socket.recv_from(&mut buffer).await.is_ok() {}
    });
    log::say("running");
    Ok(())
}

/// Refuses every question of a connection (RFC 1035).
async fn refuse(mut stream: TcpStream) -> Result<()> {
    loop {
        let mut question = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut question).await?;
        let number = question.get(..2).context("no number")?;
        stream.write_all(&[&[0, 12], number, &[0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0]].concat()).await?;
    }
}

/// The configuration that the command line names. It stays who it is, whoever it is to become.
fn file(arguments: &[String]) -> Result<String, Exit> {
    let mut file = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-f" | "-g" => {}
            "-u" => drop(rest.next().ok_or_else(|| usage("option requires an argument -- u"))?),
            "-c" => file = rest.next().cloned(),
            _ => return Err(usage("unknown option")),
        }
    }
    file.ok_or_else(|| usage("no configuration is named"))
}

/// The port for machines, if all that is needed stands there.
fn read(text: &str) -> Option<u16> {
    let after = |words: &str| text.split_once(words)?.1.split([' ', '"']).next();
    let is_known = after("secret \"").is_some_and(|secret| secret.len() % 4 == 0 && !secret.is_empty());
    let port = after("listen-on port ")?.parse().ok()?;
    (is_known && text.contains(&format!("inet 127.0.0.1 port {CONTROL}"))).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(folder: &Path, secret: &str) -> Named {
        let (file, rndc) = (folder.join("named.conf"), folder.join("rndc.conf"));
        Named { file, rndc, secret: secret.into(), log: "/dev/null".into(), port: 1053 }
    }

    #[test]
    fn what_the_one_writes_the_other_one_reads() {
        let folder = tempfile::tempdir().unwrap();
        let named = named(folder.path(), "xvysmOR8lnUQRBcunkC6vg==");
        write(&named).unwrap();
        assert_eq!(read(&fs::read_to_string(&named.file).unwrap()), Some(1053));
        assert!(fs::read_to_string(&named.rndc).unwrap().contains("secret \"xvysmOR8lnUQRBcunkC6vg==\";"));
    }

    #[test]
    fn a_file_without_port_or_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let named = named(folder.path(), "");
        write(&named).unwrap();
        assert_eq!(read(&fs::read_to_string(&named.file).unwrap()), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn the_command_line_names_the_file() {
        let read = |line: &str| file(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("-f -u contrail -c /a").unwrap(), "/a");
        for line in ["-f -u contrail", "-f -u", "-x -c /a"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
