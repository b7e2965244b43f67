//! What is known of peers that must outlive a process.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{keys::PublicKey, noise::Stamps};

/// What is known of each peer, by its key.
///
/// A device that starts with it refuses initiations that were seen before, sends none that seems old
/// to its peer, and knows where peers are that have no configured place: they go first when all of
/// them come back at once (docs/adr/0029).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(pub BTreeMap<PublicKey, Remembered>);

/// What is known of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// By which initiations are told to be new; a core that does not tell has none.
    #[serde(flatten)]
    pub stamps: Stamps,
    /// Where it was heard from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<SocketAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keys::PrivateKey, noise::Stamp};

    #[test]
    fn it_is_written_in_the_notation_of_tai64n_and_read_again() {
        let key = PrivateKey::from_random([1; 32]).public();
        let seen = Stamp::from_bytes(&[0x40, 0, 0, 0, 0x65, 0x53, 0xf1, 0x0a, 0x1c, 0, 0, 0]);
        let remembered = Remembered {
            stamps: Stamps {
                seen: Some(seen),
                sent: None,
            },
            endpoint: Some("[2001:db8::1]:51820".parse().unwrap()),
        };
        let memory = Memory(BTreeMap::from([(key, remembered)]));
        let text = serde_json::to_string(&memory).unwrap();
        assert_eq!(
            text,
            format!(
                r#"{{"{key}":{{"seen":"@400000006553f10a1c000000","endpoint":"[2001:db8::1]:51820"}}}}"#
            )
        );
        assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
        for bad in [
            "400000006553f10a1c000000",
            "@4000",
            "@4000000065zzf10a1c000000",
            "@é",
        ] {
            let text = text.replace("@400000006553f10a1c000000", bad);
            assert!(serde_json::from_str::<Memory>(&text).is_err(), "{bad}");
        }
    }
}
