//! One TCP connection, for as long as it lasts.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Between two numbers.
const PACE: Duration = Duration::from_millis(20);
/// Between two lines.
const REPORT: Duration = Duration::from_millis(50);

/// Prints numbers that have come back, in order and without a hole. Ends, with an error,
/// when the connection does.
pub(crate) fn run(addr: SocketAddr) -> Result<()> {
    let mut stream =
        TcpStream::connect_timeout(&addr, Duration::from_secs(10)).context("connect")?;
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    let mut sender = stream.try_clone().context("duplicate the stream")?;
    thread::spawn(move || {
        for number in 0_u64.. {
            // The reader tells what is wrong.
            if sender.write_all(&number.to_be_bytes()).is_err() {
                return;
            }
            thread::sleep(PACE);
        }
    });
    let mut told = Instant::now();
    for expected in 0_u64.. {
        let mut number = [0; 8];
        stream
            .read_exact(&mut number)
            .with_context(|| format!("after {expected} numbers"))?;
        let number = u64::from_be_bytes(number);
        if number != expected {
            bail!("{number} came where {expected} was to come");
        }
        if told.elapsed() >= REPORT {
            println!("{expected}");
            told = Instant::now();
        }
    }
    Ok(())
}
