//! The demo on real nodes: the operator is a pod of its chart, and what it makes are servers that run.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result};
use tf_testing::real::{image, operator};

use super::{NAMESPACE, applied, keep};

const OPERATOR: &str = "zookeeper-op";
const NODES: u32 = 3;

/// Brings a manifest of ZooKeepers up.
pub async fn show(demo: &super::Demo, manifest: &str, images: &Path) -> Result<()> {
    let begun = Instant::now();
    println!("starting a control plane with {NODES} real nodes");
    let archives = image::archives_in(images, &[OPERATOR, "tf-node", image::ZOOKEEPER_ARCHIVE])?;
    let lab = operator::installed(NODES, OPERATOR, NAMESPACE, &archives, &[image::ZOOKEEPER]).await?;
    println!(
        "{:5.1} s  every node is Ready, has the images, and the chart is installed",
        begun.elapsed().as_secs_f64()
    );
    applied(&lab, demo, manifest, &[], begun).await?;

    println!();
    for node in lab.real_nodes()?.all()? {
        // As anybody on the node would ask.
        let ask = "exec 3<>/dev/tcp/$0/2181; printf srvr >&3; cat <&3";
        let answer = node.run("bash", &["-c", ask, &node.address().to_string()]).await.context("asking a server")?;
        let lines: Vec<&str> = answer.lines().filter(|line| line.starts_with(['M', 'Z'])).collect();
        println!("{:<8} {:<12} {}", node.name(), node.address(), lines.join("  "));
    }
    keep(&lab, demo).await
}
