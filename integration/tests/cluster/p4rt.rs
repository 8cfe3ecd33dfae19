//! P4Runtime as a second client meets it: it reads, and disturbs nobody.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use p4runtime::pipeline::Table;
use p4runtime::{transport, v1};
use penstock_identity::client::{Client, Expected};
use penstock_identity::{Credentials, Files, Identity, Kind};
use penstock_integration::lab::{Lab, mgmt};

/// No answer takes as long.
const SOON: Duration = Duration::from_secs(30);

/// Entries of each table of each NIC of a node, the worker's own tables too.
pub(crate) fn occupancy(lab: &Lab, node: usize, name: &str, nics: u8) -> Vec<BTreeMap<Table, u64>> {
    let namespace = format!("/run/netns/{}", lab.ctl().name());
    let (certificate, key) = lab.pki().of("controller", "main");
    let files = Files {
        ca: lab.pki().ca().into(),
        certificate: certificate.into(),
        key: key.into(),
    };
    let expected = Identity::new(Kind::Node, name).expect("a name");
    let address = format!("{}:9600", mgmt(node));
    let thread = std::thread::spawn(move || {
        let namespace = File::open(namespace).expect("the namespace");
        setns(namespace, CloneFlags::CLONE_NEWNET).expect("enters");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let reading = async move {
            let credentials = Credentials::load(&files).expect("certificates");
            let endpoint = transport::endpoint(format!("http://{address}")).expect("a URI");
            let channel = Client::new(credentials, Expected::Exactly(expected))
                .channel(endpoint, &address)
                .await
                .expect("connects");
            let mut client = transport::client(channel);
            let mut all = Vec::new();
            for device_id in 1..=u64::from(nics) {
                let mut tables = BTreeMap::new();
                for table in Table::ALL {
                    let request = v1::ReadRequest {
                        device_id,
                        entities: vec![table.read_all()],
                        ..Default::default()
                    };
                    let mut answers = client.read(request).await.expect("reads").into_inner();
                    let mut count = 0;
                    while let Some(answer) = answers.message().await.expect("reads on") {
                        count += answer.entities.len() as u64;
                    }
                    tables.insert(table, count);
                }
                all.push(tables);
            }
            all
        };
        let all = runtime.block_on(async { tokio::time::timeout(SOON, reading).await });
        all.expect("in time")
    });
    thread.join().expect("the client's part")
}
