//! Whole messages between two processes of one host, with descriptors beside them.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
        sendmsg, socketpair,
    },
};

/// One end. It becomes readable when a message arrives and when the other end is closed.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What arrives.
#[derive(Debug)]
pub enum Arrival {
    /// Nothing now.
    Nothing,
    /// A message and the descriptors beside it.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// The other end is closed, and everything it said was taken.
    Closed,
}

impl Channel {
    /// Both ends. Neither survives an `exec` by itself.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        Ok((Self(one), Self(other)))
    }

    /// An end that was inherited.
    #[must_use]
    pub const fn inherited(end: OwnedFd) -> Self {
        Self(end)
    }

    /// Sends a message of at most [`MAX_MESSAGE`] bytes and [`MAX_DESCRIPTORS`] descriptors. Never
    /// waits.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when the other end takes nothing, `BrokenPipe` when it is closed,
    /// `InvalidInput` when it is too much.
    pub fn send(&self, message: &[u8], beside: &[BorrowedFd<'_>]) -> io::Result<()> {
        if message.len() > MAX_MESSAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = beside.is_empty() || control.push(SendAncillaryMessage::ScmRights(beside));
        if !fits {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(message)], &mut control, flags)?;
        Ok(())
    }

    /// Takes a message, if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer; `InvalidData` for a message that was cut.
    pub fn receive(&self) -> io::Result<Arrival> {
        let mut message = vec![0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut message)],
            &mut control,
            flags,
        );
        let received = match received {
            Ok(received) => received,
            Err(Errno::WOULDBLOCK) => return Ok(Arrival::Nothing),
            Err(Errno::CONNRESET) => return Ok(Arrival::Closed),
            Err(error) => return Err(error.into()),
        };
        let mut beside = Vec::new();
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = ancillary {
                beside.extend(descriptors);
            }
        }
        if received
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // No end sends empty messages.
        if received.bytes == 0 {
            return Ok(Arrival::Closed);
        }
        message.truncate(received.bytes);
        Ok(Arrival::Message(message, beside))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// The most descriptors beside one message.
pub const MAX_DESCRIPTORS: usize = 16;
const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_with_their_descriptors_and_the_end_is_told() {
        let (one, other) = Channel::pair().unwrap();
        assert!(matches!(other.receive().unwrap(), Arrival::Nothing));
        let (far, near) = Channel::pair().unwrap();
        one.send(b"first", &[far.as_fd(), near.as_fd()]).unwrap();
        one.send(b"second", &[]).unwrap();
        let Arrival::Message(text, beside) = other.receive().unwrap() else {
            panic!("nothing arrived");
        };
        assert_eq!((text.as_slice(), beside.len()), (b"first".as_slice(), 2));
        let mut beside = beside.into_iter().map(Channel::inherited);
        beside.next().unwrap().send(b"through", &[]).unwrap();
        assert!(matches!(near.receive().unwrap(), Arrival::Message(..)));
        drop(one);
        assert!(matches!(other.receive().unwrap(), Arrival::Message(..)));
        assert!(matches!(other.receive().unwrap(), Arrival::Closed));
        let error = other.send(b"late", &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_is_too_long_is_refused_and_who_does_not_listen_costs_no_time() {
        let (one, _other) = Channel::pair().unwrap();
        let error = one.send(&vec![0; MAX_MESSAGE + 1], &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let full = (0..100_000).find_map(|_| one.send(&[0; 4096], &[]).err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
    }
}
