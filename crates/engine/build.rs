//! Copies the description of Temporal's API, which `temporalio-protos` compiled. Archives need it to write histories as
//! JSON.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let description = env::var("DEP_TEMPORALIO_PROTOS_DESCRIPTOR_PATH")?;
    println!("cargo::rerun-if-changed={description}");
    fs::copy(description, Path::new(&env::var("OUT_DIR")?).join("descriptors.bin"))?;
    Ok(())
}
