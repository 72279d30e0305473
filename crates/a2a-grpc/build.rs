//! Compiles the service's description, without protoc.

use std::{env, error::Error, fs, path::Path};

use prost::Message as _;

const PROTO: &str = "../../proto";
const FILES: [&str; 3] = ["a2a/v1/a2a.proto", "google/rpc/status.proto", "google/rpc/error_details.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let mut compiler = protox::Compiler::new([PROTO])?;
    compiler.include_imports(true).include_source_info(false).open_files(FILES)?;
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("descriptors.bin"), compiler.file_descriptor_set().encode_to_vec())?;
    Ok(())
}
