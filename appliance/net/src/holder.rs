//! Which process has a port.

use std::{fs, path::Path};

/// The process that has a UDP port of either family in the calling thread's namespace, as far as
/// this one may see it: its name and id. Reads all of `/proc`: not for a thread with deadlines.
#[must_use]
pub fn of_udp_port(port: u16) -> Option<String> {
    of_port(["udp", "udp6"], port)
}

/// The same of a TCP port.
#[must_use]
pub fn of_tcp_port(port: u16) -> Option<String> {
    of_port(["tcp", "tcp6"], port)
}

fn of_port(tables: [&str; 2], port: u16) -> Option<String> {
    let sockets: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")).ok())
        .flat_map(|table| inodes(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let id: u32 = process.file_name().to_str()?.parse().ok()?;
        has_any(&process.path(), &sockets).then(|| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            format!("{} (process {id})", name.trim())
        })
    })
}

/// The inodes of sockets on a port, of one of the kernel's tables.
fn inodes(table: &str, port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let rows = table.lines().skip(1);
    rows.filter_map(|row| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let local = columns.get(1)?;
        let inode = columns.get(9)?;
        local.ends_with(&wanted).then(|| (*inode).to_owned())
    })
    .collect()
}

fn has_any(process: &Path, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    files.flatten().any(|file| {
        let target = fs::read_link(file.path()).unwrap_or_default();
        target
            .to_str()
            .is_some_and(|target| sockets.iter().any(|socket| socket == target))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_of_a_port_is_named() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let holder = of_udp_port(port).unwrap();
        assert!(
            holder.ends_with(&format!("(process {})", std::process::id())),
            "{holder}"
        );
        drop(socket);
        assert_eq!(of_udp_port(port), None);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(of_tcp_port(port).is_some());
        drop(listener);
        assert_eq!(of_tcp_port(port), None);
    }
}
