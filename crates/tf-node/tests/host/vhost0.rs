//! A node that an agent's pod sets up again.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tf_host::{
    data_path::DataPath as _,
    facts::network::Network,
    journal::{Journal, State},
    plan::Step,
};
use tf_node::{paths::Paths, vhost0::Vhost0};
use tf_sim::module::StandIn;

use crate::{change::Node, kernel::on_node, node::facts, router::Probe};

/// For it to be noticed and mended.
const MENDED: Duration = Duration::from_secs(20);

fn has(network: &Network, link: &str, address: &str) -> bool {
    network.addresses_of(link).any(|it| it.address.to_string() == address)
}

#[test]
fn what_happened_to_the_interface_while_nothing_looked_or_later_is_mended() {
    on_node(|kernel| {
        let node = Node::new(kernel);
        assert!(node.run("apply", None).status.success());
        let mut module = StandIn::open().unwrap();
        module.remove_physical("eth0").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = [node.options(), vec!["--modprobe".into(), "true".into()]].concat();
        runtime.block_on(async {
            let program = PathBuf::from(env!("CARGO_BIN_EXE_tf-node"));
            let mut vhost0 = Vhost0::new(Paths::default(), program);
            vhost0.follow(Some(&options));
            // It is verified, too.
            let is_done = || {
                let journal = Journal::read(&node.journal()).unwrap().unwrap();
                journal.state == State::Committed && journal.plan.steps == [Step::AddPhysical, Step::Attach]
            };
            until("connected again", is_done).await;
            assert!(module.has("eth0").unwrap());
            Probe::start().end();
            // As a program that sets addresses does it.
            kernel.address("eth0", "10.0.0.7/24", vec![]);
            until("moved again", || !has(&facts().network, "eth0", "10.0.0.7/24")).await;
            assert_eq!(*vhost0.problem().borrow(), None);
            let mut probe = Probe::start();
            probe.exchange();
        });
        assert!(node.is_switched());
    });
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < MENDED, "{what}: not within {MENDED:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
