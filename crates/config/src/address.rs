//! Addresses of web services.

use crate::amount::Bare;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An address that begins with `http://` or `https://`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Bare", into = "String")]
pub struct WebAddress(String);

impl WebAddress {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WebAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = ["http://", "https://"].iter().find_map(|begin| text.strip_prefix(begin));
        let plain = |c: char| c.is_ascii_graphic() && !"\"\\<>^`{|}".contains(c);
        match rest {
            Some(rest) if rest.starts_with(|c| c != '/') && rest.chars().all(plain) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(format!("expected an address such as https://host/path, found {text:?}")),
        }
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<Bare> for WebAddress {
    type Error = String;

    fn try_from(bare: Bare) -> Result<Self, String> {
        bare.text().parse()
    }
}

impl From<WebAddress> for String {
    fn from(address: WebAddress) -> Self {
        address.0
    }
}

#[cfg(test)]
mod tests {
    use super::WebAddress;

    #[test]
    fn only_web_addresses_are_taken() {
        for text in ["http://127.0.0.1:8080/x", "https://chat.example.org/hooks/a?b=c%20d"] {
            assert_eq!(text.parse::<WebAddress>().unwrap().as_str(), text);
        }
        for text in ["", "chat.example.org", "file:///etc/passwd", "http://", "http:///x"] {
            assert!(text.parse::<WebAddress>().unwrap_err().contains("such as"), "{text}");
        }
        for text in ["https://a b", "https://a\"b", "https://a\nurl=x", "https://é"] {
            assert!(text.parse::<WebAddress>().is_err(), "{text}");
        }
    }
}
