//! A server that sends back what comes.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use anyhow::{Context as _, Result};

pub(crate) fn run(tcp: &[u16], udp: u16) -> Result<()> {
    let everyone = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    for port in tcp {
        let listener = TcpListener::bind((everyone, *port))
            .with_context(|| format!("bind TCP port {port}"))?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    if let Err(e) = echo(stream) {
                        eprintln!("echo: {e}");
                    }
                });
            }
        });
    }
    let socket =
        UdpSocket::bind((everyone, udp)).with_context(|| format!("bind UDP port {udp}"))?;
    crate::stream::ample(&socket)?;
    println!("ready");
    let mut datagram = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut datagram).context("receive")?;
        let answer = datagram.get(..len).unwrap_or_default();
        if let Err(e) = socket.send_to(answer, from) {
            eprintln!("answer {from}: {e}");
        }
    }
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        stream.write_all(buffer.get(..len).unwrap_or_default())?;
    }
}
