//! A workload's own programs: small servers that answer with a token, and
//! clients that time the first answer. They speak through the kernel's stack.
#![forbid(unsafe_code)]

mod bulk;
mod echo;
mod hold;
mod knock;
mod stream;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;

#[derive(Parser)]
enum Command {
    /// Answers each TCP connection, and each UDP datagram, with a token.
    Serve {
        #[arg(long)]
        token: String,
        #[arg(long)]
        tcp: u16,
        #[arg(long)]
        udp: u16,
    },
    /// Prints the token of a TCP server and the time that connecting took.
    TcpAsk {
        addr: IpAddr,
        port: u16,
        wait_ms: u64,
    },
    /// Prints the token of a UDP server and the time until its first answer.
    UdpAsk {
        addr: IpAddr,
        port: u16,
        wait_ms: u64,
    },
    /// Sends back what comes, on TCP ports and on a UDP port.
    Echo {
        #[arg(long, required = true)]
        tcp: Vec<u16>,
        #[arg(long)]
        udp: u16,
    },
    /// Counts up over one TCP connection to an echo; prints how far it has come.
    Hold { addr: IpAddr, port: u16 },
    /// Sends numbered datagrams to an echo at a fixed pace; prints which did not come back.
    Stream {
        addr: IpAddr,
        port: u16,
        period_us: u64,
    },
    /// Tries to open TCP, and sends a datagram, again and again; what must not be let in.
    Knock {
        addr: IpAddr,
        port: u16,
        period_ms: u64,
    },
    /// Sends every TCP connection's bytes back in order; counts UDP datagrams.
    Tally {
        #[arg(long)]
        tcp: u16,
        #[arg(long)]
        udp: u16,
    },
    /// Has a tally return so many bytes, and compares each; then keeps the
    /// connection open for a while.
    Transfer {
        addr: IpAddr,
        port: u16,
        bytes: usize,
        hold_ms: u64,
    },
    /// Sends numbered datagrams to a tally, one every so many microseconds, and
    /// prints how many different ones, and how many in all, have come.
    Series {
        addr: IpAddr,
        port: u16,
        count: u32,
        pause_us: u64,
    },
    /// Sends GET over one HTTP connection every 20 ms, and prints a line per answer.
    Pulse {
        addr: IpAddr,
        port: u16,
        seconds: u64,
    },
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Serve { token, tcp, udp } => serve(token, tcp, udp),
        Command::TcpAsk {
            addr,
            port,
            wait_ms,
        } => tcp_ask((addr, port).into(), Duration::from_millis(wait_ms)),
        Command::UdpAsk {
            addr,
            port,
            wait_ms,
        } => udp_ask((addr, port).into(), Duration::from_millis(wait_ms)),
        Command::Echo { tcp, udp } => echo::run(&tcp, udp),
        Command::Hold { addr, port } => hold::run((addr, port).into()),
        Command::Stream {
            addr,
            port,
            period_us,
        } => stream::run((addr, port).into(), Duration::from_micros(period_us)),
        Command::Knock {
            addr,
            port,
            period_ms,
        } => knock::run((addr, port).into(), Duration::from_millis(period_ms)),
        Command::Tally { tcp, udp } => bulk::tally(tcp, udp),
        Command::Transfer {
            addr,
            port,
            bytes,
            hold_ms,
        } => bulk::transfer((addr, port).into(), bytes, Duration::from_millis(hold_ms)),
        Command::Series {
            addr,
            port,
            count,
            pause_us,
        } => bulk::series((addr, port).into(), count, Duration::from_micros(pause_us)),
        Command::Pulse {
            addr,
            port,
            seconds,
        } => pulse((addr, port).into(), Duration::from_secs(seconds)),
    }
}

fn serve(token: String, tcp: u16, udp: u16) -> Result<()> {
    let everyone = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let listener =
        TcpListener::bind((everyone, tcp)).with_context(|| format!("bind TCP port {tcp}"))?;
    let socket =
        UdpSocket::bind((everyone, udp)).with_context(|| format!("bind UDP port {udp}"))?;
    println!("ready");
    let answer = token.clone();
    thread::spawn(move || {
        let mut datagram = [0; 2048];
        while let Ok((_, from)) = socket.recv_from(&mut datagram) {
            if let Err(e) = socket.send_to(answer.as_bytes(), from) {
                eprintln!("answer {from}: {e}");
            }
        }
    });
    for stream in listener.incoming() {
        let mut stream = stream.context("accept")?;
        let token = token.clone();
        thread::spawn(move || {
            if let Err(e) = writeln!(stream, "{token}") {
                eprintln!("answer: {e}");
            }
        });
    }
    Ok(())
}

fn tcp_ask(addr: SocketAddr, wait: Duration) -> Result<()> {
    let begin = Instant::now();
    let mut stream =
        TcpStream::connect_timeout(&addr, wait).with_context(|| format!("connect to {addr}"))?;
    let took = begin.elapsed();
    stream
        .set_read_timeout(Some(wait))
        .context("set a read timeout")?;
    let mut token = String::new();
    stream
        .read_to_string(&mut token)
        .with_context(|| format!("read from {addr}"))?;
    report(&token, took);
    Ok(())
}

fn udp_ask(addr: SocketAddr, wait: Duration) -> Result<()> {
    let any: IpAddr = if addr.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).context("bind a UDP port")?;
    socket
        .connect(addr)
        .with_context(|| format!("connect to {addr}"))?;
    socket
        .set_read_timeout(Some(wait))
        .context("set a read timeout")?;
    let mut first = None;
    let mut datagram = [0; 2048];
    let mut token = String::new();
    // A conversation, not one datagram, so that the NIC has something to take.
    for _ in 0..20 {
        let begin = Instant::now();
        socket
            .send(b"token?")
            .with_context(|| format!("send to {addr}"))?;
        let n = socket
            .recv(&mut datagram)
            .with_context(|| format!("no answer from {addr} in {wait:?}"))?;
        first.get_or_insert(begin.elapsed());
        token = String::from_utf8_lossy(&datagram[..n]).into_owned();
    }
    report(&token, first.context("at least one answer")?);
    Ok(())
}

/// One line that the demo reads: token and microseconds.
fn report(token: &str, first: Duration) {
    println!("{} {}", token.trim(), first.as_micros());
}

fn pulse(addr: SocketAddr, time: Duration) -> Result<()> {
    let mut stream =
        TcpStream::connect_timeout(&addr, Duration::from_secs(2)).context("connect")?;
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .context("set a read timeout")?;
    let mut answers = BufReader::new(stream.try_clone().context("duplicate the stream")?);
    let end = Instant::now() + time;
    while Instant::now() < end {
        stream
            .write_all(b"GET /token HTTP/1.1\r\nHost: web\r\n\r\n")
            .context("ask")?;
        let body = answer(&mut answers)?;
        println!("{}", body.trim());
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn answer(from: &mut impl BufRead) -> Result<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).context("read a header")? == 0 {
            bail!("the server closed the connection");
        }
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().context("Content-Length")?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).context("read the body")?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}
