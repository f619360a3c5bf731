//! What the operator would do, situation by situation.

#[test]
fn plans_are_as_recorded() {
    tf_testing::golden::check::<control_op::Component>(env!("CARGO_MANIFEST_DIR"));
}
