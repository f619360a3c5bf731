//! What the operator would do, situation by situation.

#[test]
fn plans_are_as_recorded() {
    tf_testing::golden::check::<vrouter_op::Component>(env!("CARGO_MANIFEST_DIR"));
}
