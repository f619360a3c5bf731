//! Inputs that are made up, for properties of planners.

use proptest::{collection::btree_set, prelude::*};

/// Addresses of one to seven nodes: of IPv4 so many times as often as of IPv6.
pub fn addresses(four_to_one: u32) -> impl Strategy<Value = Vec<String>> {
    let four = btree_set(1_u8..=250, 1..8).prop_map(|all| all.iter().map(|n| format!("10.0.0.{n}")).collect());
    let six = btree_set(1_u16.., 1..8).prop_map(|all| all.iter().map(|n| format!("fd00::{n:x}")).collect());
    prop_oneof![four_to_one => four, 1 => six]
}
