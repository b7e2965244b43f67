//! A connection of the cross-platform protocol: nothing panics, and what a device tells of itself
//! makes another device like it.

use kedge_tunnel_proto::uapi::{
    Configuration, Parser, Request,
    answer::{self, Secrets, Traffic},
};

/// What a tool says on one connection.
pub fn uapi_text(bytes: &[u8]) {
    let mut device = Configuration::default();
    converse(bytes, &mut device);
    let told = tell(&device);
    let mut another = Configuration::default();
    converse(as_set(&told).as_bytes(), &mut another);
    assert_eq!(tell(&another), told);
    assert_eq!(another.specs(), device.specs());
}

fn converse(mut bytes: &[u8], device: &mut Configuration) {
    let mut parser = Parser::new(|_| None);
    while let Some(outcome) = parser.next(&mut bytes) {
        match outcome {
            Ok(Request::Set(set)) => device.apply(set),
            Ok(Request::Get) => drop(tell(device)),
            Err(errno) if errno.ends_connection() => return,
            Err(_) => {}
        }
    }
}

fn tell(device: &Configuration) -> String {
    answer::get(device, device.listen_port(), Secrets::Told, |_| {
        Traffic::default()
    })
    .to_string()
}

fn as_set(told: &str) -> String {
    let mut text = "set=1\n".to_owned();
    for line in told.lines() {
        let counted = ["last_", "tx_", "rx_", "errno="];
        if !line.is_empty() && !counted.iter().any(|start| line.starts_with(start)) {
            text += line;
            text += "\n";
        }
    }
    text + "\n"
}
