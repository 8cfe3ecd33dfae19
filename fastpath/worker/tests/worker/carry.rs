//! Connections go on: over a restart, and from worker to worker.

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use p4runtime::update;
use p4runtime::v1::write_request::Atomicity::ContinueOnError;
use penstock_slowpath_api::v1;
use tokio::time::timeout;

use crate::bed::Node;
use crate::controller::{Controller, SOON, port_entries};
use crate::fixture::{IP, MAC, VNI, allow, bits, snapshot};
use crate::forwarding::Bed as Pair;
use crate::memory::Bed;
use crate::netns;

const UDP: u32 = 17;
const TCP: u32 = 6;

async fn export(controller: &mut Controller, port_id: u32) -> Vec<v1::FlowState> {
    let request = v1::ExportFlowsRequest { port_id };
    let stream = timeout(SOON, controller.slow.export_flows(request)).await;
    let mut stream = stream.expect("in time").expect("answers").into_inner();
    let mut flows = Vec::new();
    while let Some(flow) = timeout(SOON, stream.message())
        .await
        .expect("in time")
        .expect("flows")
    {
        flows.push(flow);
    }
    flows
}

/// How many were taken up; why others were not.
async fn import(
    controller: &mut Controller,
    flows: Vec<v1::FlowState>,
) -> (u64, Vec<(String, u64)>) {
    let call = controller.slow.import_flows(tokio_stream::iter(flows));
    let answer = timeout(SOON, call).await.expect("in time");
    let answer = answer.expect("answers").into_inner();
    let refused = answer.refused.into_iter().map(|r| (r.reason, r.flows));
    (answer.imported, refused.collect())
}

/// A connection of port 1 to port 2's address, as port 1 sees it.
fn udp(sport: u32) -> v1::FlowState {
    v1::FlowState {
        port_id: 1,
        vni: VNI,
        key: Some(v1::FlowKey {
            source_ip: crate::fixture::bytes(IP[0]),
            destination_ip: crate::fixture::bytes(IP[1]),
            protocol: UDP,
            source_port: sport,
            destination_port: 53,
        }),
        ingress: false,
        peer_port_id: 2,
        tracker: Some(v1::flow_state::Tracker::Replied(true)),
        idle_ns: 1000,
        slow_packets: 2,
        slow_bytes: 200,
        nic_packets: 3,
        nic_bytes: 300,
        rule: String::new(),
        persists: false,
    }
}

/// A worker with port 1 in place.
async fn programmed(bed: &Bed) -> Controller {
    let mut controller = bed.controller().await;
    let status = controller.sync().await.send(snapshot(1, vec![])).await;
    let device_port = status.attachments[0].device_port;
    let _primary = controller.take(1, 1).await;
    let entries = port_entries(device_port, 1, VNI as u16, MAC[0], bits(IP[0]));
    controller.insert(1, 1, &entries).await;
    controller
}

#[tokio::test]
async fn connections_go_from_worker_to_worker() {
    let (one, other) = (Bed::start().await, Bed::start().await);
    let (mut from, mut to) = (programmed(&one).await, programmed(&other).await);
    // More than a slice has.
    let flows: Vec<_> = (0..400).map(|i| udp(1000 + i)).collect();
    assert_eq!(import(&mut from, flows).await, (400, vec![]));
    let mut exported = export(&mut from, 1).await;
    assert_eq!(exported.len(), 400);
    assert!(export(&mut from, 2).await.is_empty());
    for flow in &exported {
        assert!(flow.idle_ns >= 1000, "{flow:?}");
        let mut sent = udp(flow.key.as_ref().expect("a key").source_port);
        sent.idle_ns = flow.idle_ns;
        assert_eq!(*flow, sent);
    }
    let mut bad = udp(1);
    bad.tracker = None;
    let mut foreign = udp(2);
    foreign.port_id = 3;
    let mut denied = udp(3);
    (denied.port_id, denied.ingress) = (2, true);
    exported.extend([bad, foreign, denied, udp(1000)]);
    let expected = [("malformed", 1), ("unknown_port", 2), ("duplicate", 1)];
    let expected = expected.map(|(reason, n)| (reason.to_owned(), n));
    assert_eq!(import(&mut to, exported).await, (400, expected.into()));
    assert_eq!(to.flows(1).await.len(), 400);
}

/// A NIC that takes a tenth of a second for an entry.
const SLOW: &str = "entry_write_us = 100000";

#[tokio::test]
async fn a_change_of_tables_is_answered_when_its_fences_stand() {
    let bed = Bed::with(SLOW).await;
    let mut controller = bed.controller().await;
    let mut sync = controller.sync().await;
    let status = sync.send(snapshot(1, vec![])).await;
    let device_port = status.attachments[0].device_port;
    let _primary = controller.take(2, 1).await;
    let entries = port_entries(device_port, 1, VNI as u16, MAC[0], bits(IP[0]));
    controller.insert(2, 1, &entries).await;
    assert_eq!(import(&mut controller, vec![udp(1)]).await, (1, vec![]));
    // Two fences: over what the port sends, and over what is sent to its address.
    let vport = entries.last().expect("a port has entries");
    let delete = update::delete(&vport.key());
    let began = Instant::now();
    let done = controller.write(2, 1, vec![delete], ContinueOnError).await;
    done.expect("takes it");
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(150),
        "{took:?} for two fences"
    );
}

/// More than a slice of the table has, and than a part of the file.
const MANY: u32 = 3000;

/// A worker with so many connections, and what is on disk of them while it stands still.
async fn kept() -> (Bed, Vec<u8>) {
    let bed = Bed::start().await;
    let mut controller = programmed(&bed).await;
    let flows: Vec<_> = (0..MANY).map(|i| udp(1000 + i)).collect();
    assert_eq!(import(&mut controller, flows).await, (MANY.into(), vec![]));
    drop(controller);
    let file = bed.dir.path().join(FILE);
    assert!(!file.exists(), "not while it runs");
    let mut copy = Vec::new();
    let bed = bed.restart_with(|_| copy = std::fs::read(&file).expect("is kept"));
    let bed = bed.await.expect("starts");
    let left = std::fs::read_dir(bed.dir.path()).expect("lists");
    let left = left.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    let left: Vec<_> = left.filter(|name| name.starts_with("flows")).collect();
    assert_eq!(left, [""; 0], "not while it runs");
    (bed, copy)
}

const FILE: &str = "flows.snapshot";

#[tokio::test]
async fn what_a_stop_writes_down_is_used_once() {
    use penstock_worker::flows::file::{FlowsPart, Moment};
    use penstock_worker::snapshot::Store;

    let (mut bed, copy) = kept().await;
    let mut controller = bed.controller().await;
    let flows = export(&mut controller, 0).await;
    assert_eq!(flows.len(), MANY as usize);
    assert!(
        flows
            .iter()
            .all(|f| (f.slow_packets, f.nic_bytes) == (2, 300))
    );
    drop(controller);
    let begins: Vec<usize> = (0..copy.len() - 8)
        .filter(|at| copy[*at..].starts_with(b"PENSTOCK"))
        .collect();
    assert!(begins.len() > 3, "{begins:?}");

    // Whatever has become of the file, the worker starts, with what is good; and starts again.
    type Edit = Box<dyn Fn(&Path, &[u8])>;
    let write = |bytes: Vec<u8>| -> Edit {
        Box::new(move |dir, _| std::fs::write(dir.join(FILE), &bytes).expect("writes"))
    };
    let flipped = |at: usize| {
        let mut bytes = copy.clone();
        bytes[at] ^= 1;
        write(bytes)
    };
    let (none, some, all) = (0..1, 1..MANY as usize, MANY as usize..MANY as usize + 1);
    let edits: [(&str, Edit, std::ops::Range<usize>, bool); 8] = [
        ("whole", write(copy.clone()), all.clone(), false),
        ("first part damaged", flipped(100), none.clone(), true),
        (
            "second part damaged",
            flipped(begins[1] + 100),
            some.clone(),
            true,
        ),
        (
            "cut",
            write(copy[..begins[1] + 30].to_vec()),
            some.clone(),
            true,
        ),
        (
            "cut between parts",
            write(copy[..begins[2]].to_vec()),
            some,
            true,
        ),
        ("longer", write([&copy[..], b"x"].concat()), all, true),
        (
            "stale",
            Box::new(|dir, _| {
                let store = Store::open(dir).expect("stopped");
                let mut file = store.write_parts("flows").expect("begins");
                let written = Some(Moment::default());
                let flows = vec![udp(1000)];
                file.put(&FlowsPart { written, flows }).expect("writes");
                file.finish().expect("finishes");
            }),
            none.clone(),
            false,
        ),
        (
            "gone",
            Box::new(|dir, _| std::fs::remove_file(dir.join(FILE)).expect("removes")),
            none,
            false,
        ),
    ];
    for (what, edit, expected, aside) in edits {
        let restarted = bed.restart_with(|dir| edit(dir, &copy)).await;
        bed = restarted.expect(what);
        assert!(!bed.dir.path().join(FILE).exists(), "{what}");
        let flows = export(&mut bed.controller().await, 0).await;
        assert!(expected.contains(&flows.len()), "{what}: {}", flows.len());
        let damaged = bed.dir.path().join("flows.damaged");
        assert_eq!(damaged.exists(), aside, "{what}");
        drop(std::fs::remove_file(damaged));
    }
}

/// A file that stays where it is would be found by a later start, which does not know that
/// another life has been in between.
#[tokio::test]
async fn what_cannot_be_read_or_moved_ends_the_start() {
    let (bed, _) = kept().await;
    let (dir, host) = (bed.dir.clone(), bed.host.clone());
    let [file, taken] = [FILE, "flows.taken"].map(|name| dir.path().join(name));
    let again = || Bed::try_on(dir.clone(), host.clone(), "");
    let refusal = |result: Result<Bed, String>| match result {
        Ok(_) => panic!("it starts"),
        Err(error) => error,
    };

    let error = refusal(
        bed.restart_with(|_| std::fs::create_dir(&taken).expect("makes"))
            .await,
    );
    assert!(error.contains("renaming"), "{error}");
    assert!(error.contains(FILE), "{error}");
    assert!(refusal(again().await).contains("renaming"));
    assert!(file.is_file(), "it is there still");
    std::fs::remove_dir(&taken).expect("removes");
    let bed = again().await.expect("starts");
    let flows = export(&mut bed.controller().await, 0).await;
    assert_eq!(flows.len(), MANY as usize, "nothing is lost by it");

    let looped = |_: &Path| {
        std::fs::remove_file(&file).expect("removes");
        std::os::unix::fs::symlink(&file, &file).expect("links");
    };
    let error = refusal(bed.restart_with(looped).await);
    assert!(error.contains("opening"), "{error}");

    std::fs::remove_file(&file).expect("removes");
    std::fs::create_dir(&file).expect("makes");
    let error = refusal(again().await);
    assert!(error.contains("reading"), "{error}");
    let error = refusal(again().await);
    assert!(error.contains("removing"), "{error}");
}

#[test]
fn nothing_is_lost_over_a_restart_but_the_packets_in_between() {
    if !netns::available("nothing_is_lost_over_a_restart_but_the_packets_in_between") {
        return;
    }
    // No recovery: what is not carried over is cut.
    let mut bed = Pair::with(|node: Node| node.and("recovery_s = 0\n"));
    bed.program(vec![allow("web", TCP, &[8080]), allow("dns", UDP, &[53])]);
    let mut web = bed.a.connect(&bed.b, 8080).expect("allowed");
    assert!(web.passes(4));
    // Asked by a, answered by b; then b alone speaks: no packet of its could open anything.
    let bind = |ip, port| move || UdpSocket::bind((ip, port)).expect("binds");
    let a = bed.a.ns.thread(bind(IP[0], 5000)).join().expect("runs");
    let b = bed.b.ns.thread(bind(IP[1], 53)).join().expect("runs");
    let mut buffer = [0; 16];
    for (from, to, at) in [(&a, &b, (IP[1], 53)), (&b, &a, (IP[0], 5000))] {
        from.send_to(b"x", at).expect("sends");
        to.set_read_timeout(Some(SOON)).expect("a timeout");
        to.recv(&mut buffer).expect("arrives");
    }
    let sender = b.try_clone().expect("a handle");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let stream = std::thread::spawn(move || {
        let mut sent = 0_u32;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            sender
                .send_to(&sent.to_be_bytes(), (IP[0], 5000))
                .expect("sends");
            sent += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        sent
    });
    let mut arrivals = Vec::new();
    let mut listen = |time: Duration| {
        let end = Instant::now() + time;
        a.set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout");
        while Instant::now() < end {
            let mut number = [0; 4];
            if a.recv(&mut number).is_ok() {
                arrivals.push((u32::from_be_bytes(number), Instant::now()));
            }
        }
    };
    let (begin, end) = std::thread::scope(|scope| {
        let restart = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            let begin = Instant::now();
            bed.node.stop();
            bed.node.start();
            // What has waited is forwarded as fast as it can be; some may be too much.
            (begin, Instant::now() + Duration::from_millis(100))
        });
        while !restart.is_finished() {
            listen(Duration::from_millis(50));
        }
        listen(Duration::from_millis(500));
        restart.join().expect("restarts")
    });
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let sent = stream.join().expect("ends");
    listen(Duration::from_millis(100));
    let gaps = arrivals.windows(2).filter(|w| w[1].0 > w[0].0 + 1);
    let gaps: Vec<_> = gaps.map(|w| (w[0], w[1])).collect();
    let (missing, last) = (
        sent as usize - arrivals.len(),
        arrivals.last().expect("some").0,
    );
    eprintln!("restart: {missing} packets of {sent} missing, one each millisecond");
    for (before, after) in gaps {
        let gap = (before.1, after.1);
        assert!(begin <= gap.0 && gap.1 <= end, "{before:?} to {after:?}");
    }
    assert_eq!(last + 1, sent, "it goes on to the end");
    assert!(web.passes(4), "and so does TCP");
    let flows = bed.node.control(|mut c| async move { c.flows(0).await });
    assert_eq!(flows.len(), 4, "{flows:?}");
    let drops = bed.node.control(|mut c| async move { c.drops().await });
    assert!(drops.drops.is_empty(), "{:?}", drops.drops);
}
