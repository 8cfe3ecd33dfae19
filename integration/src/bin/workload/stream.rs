//! Numbered datagrams to an echo and back.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

/// Between two reports of progress.
const REPORT: Duration = Duration::from_millis(50);
/// A number this far behind the newest that came back is lost.
const LATE: usize = 64;

/// A line for what is lost, `lost N SENT` with the time of sending in microseconds since
/// 1970, and now and then one for progress, `back N SENT`.
pub(crate) fn run(addr: SocketAddr, period: Duration) -> Result<()> {
    let any: IpAddr = if addr.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).context("bind a UDP port")?;
    socket
        .connect(addr)
        .with_context(|| format!("connect to {addr}"))?;
    let sent: Arc<Mutex<Vec<u64>>> = Arc::default();
    ample(&socket)?;
    let (sender, times) = (
        socket.try_clone().context("duplicate the socket")?,
        Arc::clone(&sent),
    );
    thread::spawn(move || {
        let begin = Instant::now();
        for number in 0_u32.. {
            let due = period.saturating_mul(number);
            thread::sleep(due.saturating_sub(begin.elapsed()));
            times
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(now());
            if let Err(e) = sender.send(&number.to_be_bytes()) {
                // It is lost, and will be told as that.
                eprintln!("send {number}: {e}");
            }
        }
    });
    let mut back: Vec<bool> = Vec::new();
    // All below have come back or been told.
    let mut settled = 0;
    let mut told = Instant::now();
    loop {
        let mut number = [0; 4];
        // An answer of ICMP is no datagram; the next may be.
        if socket.recv(&mut number).ok() != Some(4) {
            continue;
        }
        let number = u32::from_be_bytes(number) as usize;
        if back.len() <= number {
            back.resize(number + 1, false);
        }
        if let Some(place) = back.get_mut(number) {
            *place = true;
        }
        let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        let time = |n: usize| sent.get(n).copied().unwrap_or(0);
        while settled + LATE < back.len() {
            if !back.get(settled).copied().unwrap_or(false) {
                println!("lost {settled} {}", time(settled));
            }
            settled += 1;
        }
        if told.elapsed() >= REPORT && settled > 0 {
            println!("back {settled} {}", time(settled));
            told = Instant::now();
        }
    }
}

/// A program that is kept waiting for a processor loses nothing.
pub(crate) fn ample(socket: &UdpSocket) -> Result<()> {
    use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
    setsockopt(socket, RcvBufForce, &(4 << 20)).context("enlarge a receive buffer")
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros() as u64
}
