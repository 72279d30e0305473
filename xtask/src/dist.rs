//! `cargo xtask dist`: the binary for packages, optimised for what its own benchmarks do.
//!
//! Three builds' worth of time: a build that counts how often each piece of code is executed, the benchmarks with it, and
//! the build that uses the counts. All three have their own folder, so other builds stay as they are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, run as run_command, target};

pub(crate) const USAGE: &str = "dist [--without-profile]";

/// What the counts are taken from: what a worker, an engine and the API do most of the time.
const TRAINING: [&[&str]; 6] = [
    &["latency", "--runs", "10", "--through-api"],
    &["throughput", "--runs", "200", "--through-api"],
    &["signal", "--runs", "100", "--through-api"],
    &["tools", "--runs", "3"],
    &["growth", "--turns", "300"],
    &["recovery", "--runs", "50"],
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let profiled = match arguments {
        [] => true,
        [option] if option == "--without-profile" => false,
        _ => bail!("usage: cargo xtask {USAGE}"),
    };
    let ground = target().join("profiled");
    let built = match profiled {
        false => build(&ground.join("plain"), "")?,
        true => {
            let merge = llvm_profdata()?;
            let raw = ground.join("raw");
            if raw.exists() {
                fs::remove_dir_all(&raw)?;
            }
            let counting = build(&ground.join("counting"), &format!("-Cprofile-generate={}", raw.display()))?;
            for training in TRAINING {
                run_command(Command::new(&counting).arg("bench").args(training))?;
            }
            let counts = ground.join("counts.profdata");
            run_command(merge.command().arg("merge").arg("-o").arg(&counts).arg(&raw))?;
            build(&ground.join("using"), &format!("-Cprofile-use={}", counts.display()))?
        }
    };
    let out = target().join("dist");
    fs::create_dir_all(&out)?;
    let out = out.join(built.file_name().context("a binary has a name")?);
    fs::copy(&built, &out).with_context(|| format!("{} could not be copied", built.display()))?;
    println!("{}: {} bytes", out.display(), fs::metadata(&out)?.len());
    Ok(())
}

/// The binary of a `dist` build with these flags. With `--target`, build scripts and macros do not get them.
fn build(folder: &Path, flags: &str) -> Result<PathBuf> {
    let host = host()?;
    let mut command = cargo(&["build", "--profile", "dist", "-p", "windlass", "--target", &host, "--target-dir"]);
    let given = env::var("RUSTFLAGS").unwrap_or_default();
    run_command(command.arg(folder).env("RUSTFLAGS", format!("{given} {flags}").trim()))?;
    Ok(folder.join(host).join("dist").join(format!("windlass{}", env::consts::EXE_SUFFIX)))
}

fn host() -> Result<String> {
    let described = rustc(&["-vV"])?;
    let host = described.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

fn rustc(arguments: &[&str]) -> Result<String> {
    let output = Command::new("rustc").args(arguments).output().context("`rustc` could not be started")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A program and the folder of its libraries, if it is not installed.
struct Program {
    path: PathBuf,
    libraries: Option<PathBuf>,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }
}

/// rustup's (`rustup component add llvm-tools`), or Debian's. An older one than the compiler's reads the counts as long
/// as their format is the same, and says so if it is not.
fn llvm_profdata() -> Result<Program> {
    let component = Path::new(&rustc(&["--print", "sysroot"])?).join("lib/rustlib").join(host()?);
    let component = component.join("bin").join(format!("llvm-profdata{}", env::consts::EXE_SUFFIX));
    if component.is_file() {
        return Ok(Program { path: component, libraries: None });
    }
    let folder = target().join("tools/llvm-19");
    let path = folder.join("usr/lib/llvm-19/bin/llvm-profdata");
    if !path.is_file() {
        if !Path::new("/usr/bin/apt-get").exists() {
            bail!("`llvm-profdata` is missing; install it with `rustup component add llvm-tools`");
        }
        fs::create_dir_all(&folder)?;
        run_command(Command::new("apt-get").current_dir(&folder).args(["download", "llvm-19", "libllvm19"]))?;
        for package in fs::read_dir(&folder)?.flatten().map(|entry| entry.path()) {
            if package.extension().is_some_and(|extension| extension == "deb") {
                run_command(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&folder))?;
            }
        }
    }
    let libraries = folder.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH));
    Ok(Program { path, libraries: Some(libraries) })
}
