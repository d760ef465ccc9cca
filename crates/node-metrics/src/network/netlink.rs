//! Questions to a family of generic netlink, and the kernel's answers as they come.
//!
//! Here is only the way to the kernel; what the answers mean is [`super::ethtool`]'s, which is tested
//! on answers that were kept.

use std::convert::Infallible;
use std::io;

use netlink_packet_core::{
    DecodeError, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, Nla, NlasIterator,
};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_GENERIC;

/// The family that tells of all others.
const CONTROL: u16 = 16;
/// `CTRL_CMD_GETFAMILY`.
const GET_FAMILY: u8 = 3;
/// `CTRL_ATTR_FAMILY_ID`.
const FAMILY_ID: u16 = 1;
/// `CTRL_ATTR_FAMILY_NAME`.
const FAMILY_NAME: u16 = 2;

/// The longest answer that is taken: many thousand interfaces.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The header of generic netlink: command, version, and two bytes of nothing.
const HEADER_BYTES: usize = 4;

/// A message of some family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    family: u16,
    /// What is asked, or answered.
    pub(super) command: u8,
    /// The attributes.
    pub(super) attributes: Vec<u8>,
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER_BYTES + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, rest) = buffer.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&[self.command, 1, 0, 0]);
        rest.copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for Message {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        let attributes = payload.get(HEADER_BYTES..).unwrap_or_default().to_vec();
        let command = payload.first().copied().unwrap_or_default();
        Ok(Self { family: header.message_type, command, attributes })
    }
}

/// The messages in what came, one after the other, up to one that is none.
pub(super) fn messages(
    mut bytes: &[u8],
) -> impl Iterator<Item = Result<NetlinkPayload<Message>, DecodeError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let read = NetlinkMessage::<Message>::deserialize(bytes);
        // Each begins at a multiple of four.
        let length = read.as_ref().map_or(0, |message| message.header.length as usize);
        let next = length.checked_next_multiple_of(4).filter(|length| *length > 0);
        bytes = next.and_then(|next| bytes.get(next..)).unwrap_or_default();
        Some(read.map(|message| message.payload))
    })
}

/// An attribute with its value.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let attribute = netlink_packet_core::DefaultNla::new(kind, value.to_vec());
    let mut bytes = vec![0; netlink_packet_core::NLA_HEADER_SIZE + aligned(attribute.value_len())];
    netlink_packet_core::Emitable::emit(&attribute, &mut bytes);
    bytes
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// A way to one family.
pub(super) struct Family {
    socket: Socket,
    id: u16,
    asked: u32,
}

impl Family {
    /// Looks it up by its name.
    ///
    /// # Errors
    /// There is no netlink, or no such family.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        let mut control = Self { socket, id: CONTROL, asked: 0 };
        let name = attribute(FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
        let answer = control.ask(GET_FAMILY, name, 0)?;
        let found = messages(&answer).find_map(|payload| {
            let Ok(NetlinkPayload::InnerMessage(message)) = payload else { return None };
            let mut attributes = NlasIterator::new(&message.attributes).flatten();
            let id = attributes.find(|attribute| attribute.kind() == FAMILY_ID)?;
            Some(u16::from_ne_bytes(id.value().try_into().ok()?))
        });
        let id = found.ok_or_else(|| io::Error::other("the kernel's answer has no family"))?;
        Ok(Self { id, ..control })
    }

    /// What the kernel says to a question about everything there is.
    ///
    /// # Errors
    /// It refuses.
    pub(super) fn dump(&mut self, command: u8, attributes: Vec<u8>) -> io::Result<Vec<u8>> {
        self.ask(command, attributes, NLM_F_DUMP)
    }

    fn ask(&mut self, command: u8, attributes: Vec<u8>, flags: u16) -> io::Result<Vec<u8>> {
        self.asked += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.asked;
        let message = Message { family: self.id, command, attributes };
        let mut message =
            NetlinkMessage::new(header, NetlinkPayload::<Message>::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answer = Vec::new();
        loop {
            let (part, _) = self.socket.recv_from_full()?;
            if ended(&part, flags)? {
                answer.extend_from_slice(&part);
                return Ok(answer);
            }
            answer.extend_from_slice(&part);
            if answer.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::other("the kernel's answer does not end"));
            }
        }
    }
}

/// Whether the answer ends with these messages.
fn ended(part: &[u8], flags: u16) -> io::Result<bool> {
    for payload in messages(part) {
        match payload.map_err(|error| io::Error::other(error.to_string()))? {
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            NetlinkPayload::Done(done) if done.code < 0 => {
                return Err(io::Error::from_raw_os_error(-done.code));
            }
            NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(true),
            NetlinkPayload::InnerMessage(_) if flags & NLM_F_DUMP == 0 => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}
