//! One connection: requests in, answers out, one after the other.

use std::{io, sync::Arc};

use kedge_net::link;
use kedge_tunnel_proto::uapi::{Parser, Request, answer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};
use tracing::debug;
use zeroize::Zeroizing;

use super::Tool;

/// Serves a connection until the tool hangs up or says something that is no request.
pub(super) async fn converse<T: Tool>(mut stream: UnixStream, tool: Arc<T>) -> io::Result<()> {
    let mut parser = Parser::new(link::number_of);
    // What is read may be a key.
    let mut buffer = Zeroizing::new([0; READ]);
    loop {
        let length = stream.read(buffer.as_mut_slice()).await?;
        let mut bytes = buffer.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        while let Some(outcome) = parser.next(&mut bytes) {
            let outcome = match outcome {
                Ok(Request::Get) => {
                    stream.write_all(tool.get().as_bytes()).await?;
                    continue;
                }
                Ok(Request::Set(set)) => tool.set(set),
                Err(errno) => Err(errno),
            };
            if let Err(errno) = outcome {
                debug!(errno = errno.number(), because = %errno, "request refused");
            }
            let answer = answer::errno(outcome);
            stream.write_all(answer.as_bytes()).await?;
            if outcome.is_err_and(kedge_tunnel_proto::uapi::Errno::ends_connection) {
                return Ok(());
            }
        }
    }
}

const READ: usize = 16 * 1024;
