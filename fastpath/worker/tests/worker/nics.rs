//! Sixteen NICs in one worker: each is a device of its own.

use p4runtime::batch::Outcome;
use p4runtime::update;
use p4runtime::v1::write_request::Atomicity::ContinueOnError;
use tonic::Code;

use crate::controller::port_entries;
use crate::fixture::{MAC, snapshot};
use crate::memory::Bed;

/// NICs 3 to 16 beside the bed's own two; the last is small.
fn more() -> String {
    let mut text = String::new();
    for id in 3..=16 {
        let small = if id == 16 {
            "capacity = { mapping = 2 }\n"
        } else {
            ""
        };
        text += &format!(
            "[[nic]]\ndevice_id = {id}\nuplink = {{ devargs = \"net_null{id}\" }}\nvtep = \"192.0.2.{id}/24\"\n{small}"
        );
    }
    text
}

#[tokio::test]
async fn each_of_sixteen_nics_has_its_own_tables() {
    let bed = Bed::with(&more()).await;
    let mut controller = bed.controller().await;
    let mut streams = Vec::new();
    for id in 1..=16_u32 {
        streams.push(controller.take(id.into(), 1).await);
        // As many ports as the NIC's number says, with the same addresses everywhere.
        for port in 1..=id {
            let entries = port_entries(20 * id + port, port, 7, MAC[0], u128::from(port));
            let updates: Vec<_> = entries.iter().map(update::insert).collect();
            match controller
                .write(id.into(), 1, updates, ContinueOnError)
                .await
            {
                Ok(()) => {}
                Err(Outcome::Each(each)) if id == 16 && port > 2 => {
                    let refused: Vec<_> = each.into_iter().filter_map(Result::err).collect();
                    assert_eq!(refused.len(), 1, "{refused:?}");
                    assert_eq!(refused[0].code, Code::ResourceExhausted, "{refused:?}");
                    assert!(refused[0].message.contains("mapping"), "{refused:?}");
                }
                Err(other) => panic!("NIC {id}, port {port}: {other:?}"),
            }
        }
    }
    for id in 1..=16_usize {
        let count = controller.entries(id as u64).await.len();
        let expected = if id == 16 { 3 * 16 + 2 } else { 4 * id };
        assert_eq!(count, expected, "NIC {id}");
    }
    assert_eq!(controller.entries_or(17).await, Err(Code::NotFound));
}

#[tokio::test]
async fn an_uplink_that_is_down_is_told() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let mut sync = controller.sync().await;
    let errors = |status: &penstock_slowpath_api::v1::PolicyStatus| {
        let nics = status.nics.iter();
        nics.map(|nic| (nic.device_id, nic.uplink_error.clone()))
            .collect::<Vec<_>>()
    };
    let well = vec![(1, String::new()), (2, String::new())];
    let status = sync.send(snapshot(1, vec![])).await;
    assert_eq!(errors(&status), well);
    bed.host.set_up("u1", false);
    // Unasked, within half a second.
    let told = errors(&sync.next().await.expect("an answer"));
    assert_eq!(told[0], well[0]);
    assert!(told[1].1.contains("interface u1 is down"), "{told:?}");
    bed.host.unplug("u1");
    let told = errors(&sync.next().await.expect("an answer"));
    assert!(told[1].1.contains("there is no interface u1"), "{told:?}");
    bed.host.set_up("u1", true);
    bed.host.plug("u1");
    assert_eq!(errors(&sync.next().await.expect("an answer")), well);
}
