//! An interface whose MTU changes under a running worker.

use crate::bed::wait_until;
use crate::fixture::{INTERFACE, IP, allow};
use crate::forwarding::Bed;
use crate::netns;

const ICMP: u32 = 1;

/// What the receiver's interface does not take any more is told to the sender, not lost.
#[test]
fn an_interface_that_takes_less_now_is_noticed() {
    if !netns::available("an_interface_that_takes_less_now_is_noticed") {
        return;
    }
    let mut bed = Bed::start();
    bed.program(vec![allow("ping", ICMP, &[])]);
    wait_until("1450 bytes reach b", || bed.a.pings(1450 - 28));
    bed.node
        .ns
        .ip(&["link", "set", INTERFACE[1], "mtu", "1400"]);
    let to = IP[1].to_string();
    let ask = |ns: &netns::Netns| {
        let args = ["-c", "1", "-W", "1", "-M", "do", "-s", "1422", &to];
        let out = ns.output("ping", &args);
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    };
    wait_until("the gateway to tell", || ask(&bed.a.ns).contains("mtu"));
    let told = ask(&bed.a.ns);
    assert!(
        told.contains("mtu = 1400") || told.contains("mtu=1400"),
        "{told}"
    );
    wait_until("1400 bytes to reach b", || bed.a.pings(1400 - 28));
    bed.node.stop();
}
