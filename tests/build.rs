//! Hands the tests the descriptors of Temporal's messages, so that a message can be walked field by field.

fn main() {
    let descriptors = std::env::var("DEP_TEMPORALIO_PROTOS_DESCRIPTOR_PATH");
    let descriptors =
        descriptors.unwrap_or_else(|error| panic!("temporalio-protos says where its descriptors are: {error}"));
    println!("cargo::rustc-env=TEMPORAL_DESCRIPTORS={descriptors}");
    println!("cargo::rerun-if-changed=build.rs");
}
