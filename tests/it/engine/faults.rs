//! Failed commits and full disks under load: nothing that was acknowledged is lost, and the engine continues with what
//! is on disk.

use tempfile::TempDir;
use windlass_engine::Limits;

use super::{
    host::{Fault, Host, file},
    load::Load,
    verify::Evidence,
};
use crate::{
    proofs::{dice::Dice, scale},
    support::block_on,
};

const DRIVERS: u64 = 30;
const POLLERS: u64 = 4;

#[test]
fn a_failing_disk_loses_or_duplicates_nothing_acknowledged() {
    let faults = scale("WINDLASS_FAULTS", 40);
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        let mut dice = Dice::seeded(7);
        host.disk.choose(move || match dice.roll(100) {
            0..4 => Fault::LostCommit,
            4..8 => Fault::Full,
            _ => Fault::None,
        });
        let load = Load::begin(host.client(), DRIVERS, POLLERS, 7);
        host.disk.failed(faults).await;
        host.disk.heal();
        let (journal, evidence) = load.finish().await;
        host.stop().await;

        // What the next engine finds is what this one said.
        let host = Host::start(&directory, Limits::default()).await;
        let mut again = Evidence::gather(&host.client(), &journal).await;
        assert!(again.histories() == evidence.histories(), "histories have changed with the restart");
        host.stop().await;
        again.look_at_disk(&file(directory.path()));
        let facts = journal.facts();
        let findings = again.judge(&facts);
        println!("{faults} batches failed in the commit or on a full disk\n{}", findings.report(&facts));
        findings.demand();
    });
}
