//! Cuts of the network: which nodes, and the API server, cannot reach each other.
//!
//! A cut is a pair of rules of the router that drop what comes from one end for the other, of connections that exist,
//! too. Nobody is told: to either end it is as if the other had vanished. Pods share the fate of their node; the DNS server
//! and tests share that of the API server, beside which they are.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::real::{RealNodes, machine::run};

/// The end that is not a node, as the router's device towards it is called.
pub const API_SERVER: &str = "api";

/// Two ends, in the order of their names.
pub type Cut = (String, String);

impl RealNodes {
    /// Cuts everything on the `left` from everything on the `right`: names of nodes, and [`API_SERVER`]. What is cut already stays so.
    pub async fn cut(&self, left: &[impl AsRef<str>], right: &[impl AsRef<str>]) -> Result<()> {
        let wanted = self.between(left, right)?;
        let existing = self.cuts().await?;
        self.change("-A", wanted.difference(&existing)).await
    }

    /// Heals what [`cut`](Self::cut) with the same arguments did. Other cuts stay.
    pub async fn heal(&self, left: &[impl AsRef<str>], right: &[impl AsRef<str>]) -> Result<()> {
        let wanted = self.between(left, right)?;
        let existing = self.cuts().await?;
        self.change("-D", wanted.intersection(&existing)).await
    }

    /// Heals every cut.
    pub async fn heal_all(&self) -> Result<()> {
        let existing = self.cuts().await?;
        self.change("-D", &existing).await
    }

    /// All ends but those on the `left`: other nodes, and the API server.
    pub fn others(&self, left: &[impl AsRef<str>]) -> Result<Vec<String>> {
        let mut ends = self.ends()?;
        ends.retain(|end| left.iter().all(|name| name.as_ref() != end));
        Ok(ends)
    }

    /// The cuts there are.
    pub async fn cuts(&self) -> Result<BTreeSet<Cut>> {
        let mut list = self.router().command(self.network().packet_filter())?;
        list.args(["--list-rules", "FORWARD"]);
        Ok(parse(&String::from_utf8_lossy(&run(list, "").await?.stdout)))
    }

    async fn change(&self, action: &str, cuts: impl IntoIterator<Item = &Cut>) -> Result<()> {
        let rules: String = cuts.into_iter().map(|cut| rules(action, cut)).collect();
        // All of them at the same moment.
        let mut restore = self.router().command(&format!("{}-restore", self.network().packet_filter()))?;
        restore.arg("--noflush");
        run(restore, &format!("*filter\n{rules}COMMIT\n")).await?;
        Ok(())
    }

    fn between(&self, left: &[impl AsRef<str>], right: &[impl AsRef<str>]) -> Result<BTreeSet<Cut>> {
        let known = self.ends()?;
        for name in left.iter().map(AsRef::as_ref).chain(right.iter().map(AsRef::as_ref)) {
            ensure!(known.iter().any(|end| end == name), "there is no {name:?} in the network; there are {known:?}");
        }
        pairs(left, right)
    }

    fn ends(&self) -> Result<Vec<String>> {
        let nodes = self.all()?;
        Ok(nodes.iter().map(|node| node.name().to_owned()).chain([API_SERVER.to_owned()]).collect())
    }
}

fn pairs(left: &[impl AsRef<str>], right: &[impl AsRef<str>]) -> Result<BTreeSet<Cut>> {
    let mut cuts = BTreeSet::new();
    for one in left.iter().map(AsRef::as_ref) {
        for other in right.iter().map(AsRef::as_ref) {
            ensure!(one != other, "{one} cannot be cut from itself");
            cuts.insert((one.min(other).to_owned(), one.max(other).to_owned()));
        }
    }
    Ok(cuts)
}

fn rules(action: &str, (one, other): &Cut) -> String {
    format!("{action} FORWARD -i {one} -o {other} -j DROP\n{action} FORWARD -i {other} -o {one} -j DROP\n")
}

/// Cuts among rules as `iptables --list-rules` shows them.
fn parse(rules: &str) -> BTreeSet<Cut> {
    let cut = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["-A", "FORWARD", "-i", one, "-o", other, "-j", "DROP"] => {
            Some((one.min(other).to_owned(), one.max(other).to_owned()))
        }
        _ => None,
    };
    rules.lines().filter_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_nodes_are_cut_pair_by_pair_and_what_is_written_is_read_back() {
        let cuts = pairs(&["node-3"], &["node-1", "node-2", API_SERVER]).unwrap();
        let written: String = cuts.iter().map(|cut| rules("-A", cut)).collect();
        assert_eq!(written.lines().count(), 6, "both directions of three pairs");
        assert_eq!(parse(&format!("-P FORWARD ACCEPT\n{written}")), cuts);
        assert!(cuts.contains(&("node-1".into(), "node-3".into())));
    }

    #[test]
    fn nothing_is_cut_from_itself() {
        assert!(pairs(&["node-1", "node-2"], &["node-2"]).is_err());
    }
}
