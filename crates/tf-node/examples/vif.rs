//! Stands in for the vRouter's program `vif` and its kernel module in tests: it understands the arguments that `tf-node host`
//! writes, and prints what the program prints. Like the program it ends with 0 whatever happens.
//!
//! `STAND_IN_KILLS=STEP:before|after` kills the process that ran it at a step: create, physical, attach, detach, forget.
//! `STAND_IN_IGNORES=STEP` has the module refuse a step.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, reason = "part of tests")]

#[path = "../../tf-host/tests/host/kernel.rs"]
mod kernel;
#[path = "../../tf-host/tests/host/stand_in.rs"]
mod stand_in;

use std::env;

use nix::{
    sys::signal::{Signal, kill},
    unistd::getppid,
};
use tf_host::{
    data_path::DataPath as _,
    facts::{links::Link, network::Network},
};

use self::{kernel::open, stand_in::StandIn};

const VHOST0: &str = "vhost0";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let kernel = open();
    let mut module = StandIn { kernel: &kernel };
    let network = kernel.observe().network;
    match arguments[..] {
        ["--create", VHOST0, "--mac", mac] => step("create", || module.create(mac, 1500).unwrap()),
        ["--add", VHOST0, "--mac", _, "--vrf", "0", "--type", "vhost", "--xconnect", uplink] => {
            step("attach", || module.attach(uplink).unwrap());
        }
        ["--add", uplink, "--mac", _, "--vrf", "0", "--vhost-phys", "--type", "physical"] => {
            step("physical", || module.add_physical(uplink).unwrap());
        }
        ["--delete", index] => {
            let index: u32 = index.parse().unwrap();
            let name = &network.links.iter().find(|link| link.index == index).unwrap().name;
            if name == VHOST0 {
                step("detach", || module.detach(&uplink(&network).unwrap().name).unwrap());
            } else {
                step("forget", || module.remove_physical(name).unwrap());
            }
        }
        ["--list"] => list(&network),
        _ => panic!("{arguments:?}"),
    }
}

fn step(name: &str, act: impl FnOnce()) {
    let killed = env::var("STAND_IN_KILLS").unwrap_or_default();
    let kill_at = |moment: &str| {
        if killed == format!("{name}:{moment}") {
            kill(getppid(), Signal::SIGKILL).unwrap();
        }
    };
    if env::var("STAND_IN_IGNORES").is_ok_and(|ignored| ignored == name) {
        println!("vRouter(Response): No such device (19)");
        return;
    }
    kill_at("before");
    act();
    kill_at("after");
}

/// The interface below `vhost0`.
fn uplink(network: &Network) -> Option<&Link> {
    let mac = network.link(VHOST0)?.mac.as_ref();
    network.links.iter().find(|link| link.name != VHOST0 && link.mac.as_ref() == mac)
}

fn list(network: &Network) {
    println!("Vrouter Interface Table\n\nFlags: P=Policy, X=Cross Connect, Vp=Vhost Physical\n");
    let (Some(vhost0), Some(uplink)) = (network.link(VHOST0), uplink(network)) else { return };
    let passes = |name: &str| network.link(name).is_some_and(|link| link.ingress.is_some());
    let entry = |link: &Link, kind: &str, flags: &str| {
        println!("vif0/{:<7} OS: {} NH: 4", link.index, link.name);
        println!("            Type:{kind} HWaddr:{} IPaddr:0.0.0.0", link.mac.as_deref().unwrap_or_default());
        println!("            Vrf:0 Mcast Vrf:65535 Flags:{flags} QOS:-1 Ref:3\n");
    };
    if passes(stand_in::OTHER_END) {
        entry(uplink, "Physical", "L3L2VpEr");
    }
    if passes(&uplink.name) {
        entry(vhost0, "Host", "XL3L2DEr");
    }
}
