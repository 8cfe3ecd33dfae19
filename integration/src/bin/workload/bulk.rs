//! Many bytes, and what has become of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Nobody is silent for so long and still there.
const STALL: Duration = Duration::from_secs(60);
/// Asks for the numbers instead of being counted.
const REPORT: &[u8] = b"report";

pub(crate) fn tally(tcp: u16, udp: u16) -> Result<()> {
    let everyone = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let listener =
        TcpListener::bind((everyone, tcp)).with_context(|| format!("bind TCP port {tcp}"))?;
    let socket =
        UdpSocket::bind((everyone, udp)).with_context(|| format!("bind UDP port {udp}"))?;
    println!("ready");
    thread::spawn(move || {
        if let Err(e) = count(&socket) {
            eprintln!("count datagrams: {e:#}");
        }
    });
    for stream in listener.incoming() {
        let mut stream = stream.context("accept")?;
        thread::spawn(move || {
            let copied = stream
                .try_clone()
                .and_then(|mut back| std::io::copy(&mut stream, &mut back));
            if let Err(e) = copied {
                eprintln!("echo: {e}");
            }
        });
    }
    Ok(())
}

fn count(socket: &UdpSocket) -> Result<()> {
    let mut seen: BTreeMap<SocketAddr, (BTreeSet<u32>, u64)> = BTreeMap::new();
    let mut datagram = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut datagram).context("receive")?;
        let (distinct, total) = seen.entry(from).or_default();
        let bytes = &datagram[..len];
        if bytes == REPORT {
            let answer = format!("{} {total}", distinct.len());
            socket.send_to(answer.as_bytes(), from).context("answer")?;
        } else if let Some((number, rest)) = bytes.split_first_chunk::<4>() {
            let number = u32::from_be_bytes(*number);
            // A datagram that was changed on the way does not count.
            if rest.iter().all(|byte| *byte == number as u8) {
                distinct.insert(number);
                *total += 1;
            }
        }
    }
}

/// The byte at each place of a transfer; no stretch is like another.
fn pattern(at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) fn transfer(addr: SocketAddr, bytes: usize, hold: Duration) -> Result<()> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect_timeout(&addr, STALL).context("connect")?;
    stream.set_read_timeout(Some(STALL)).context("a timeout")?;
    stream.set_write_timeout(Some(STALL)).context("a timeout")?;
    let mut out = stream.try_clone().context("duplicate the stream")?;
    let sender = thread::spawn(move || {
        let all: Vec<u8> = (0..bytes).map(pattern).collect();
        out.write_all(&all)
    });
    let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
    while at < bytes {
        let most = buffer.len().min(bytes - at);
        let len = stream.read(&mut buffer[..most]).context("read")?;
        if len == 0 {
            bail!("closed after {at} of {bytes} bytes");
        }
        for byte in &buffer[..len] {
            if *byte != pattern(at) {
                bail!("byte {at} of {bytes} has changed");
            }
            at += 1;
        }
    }
    match sender.join() {
        Ok(sent) => sent.context("write")?,
        Err(_) => bail!("the sender panicked"),
    }
    println!("{at} bytes in {} ms", begin.elapsed().as_millis());
    thread::sleep(hold);
    stream.shutdown(Shutdown::Both).context("close")
}

pub(crate) fn series(addr: SocketAddr, count: u32, pause: Duration) -> Result<()> {
    let any: IpAddr = if addr.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).context("bind a UDP port")?;
    socket.connect(addr).context("connect")?;
    let begin = Instant::now();
    for number in 0..count {
        let mut datagram = number.to_be_bytes().to_vec();
        datagram.resize(100, number as u8);
        socket.send(&datagram).context("send")?;
        let due = begin + pause * (number + 1);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    // Those on the way arrive; the question may be lost, and so may its answer.
    thread::sleep(Duration::from_millis(300));
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .context("a timeout")?;
    let mut answer = [0; 64];
    for _ in 0..100 {
        socket.send(REPORT).context("ask")?;
        if let Ok(len) = socket.recv(&mut answer) {
            println!("{}", String::from_utf8_lossy(&answer[..len]));
            return Ok(());
        }
    }
    bail!("no report from {addr}")
}
