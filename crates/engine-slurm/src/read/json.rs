//! Values as Slurm's several versions write them into JSON.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A whole number: plain up to Slurm 22.05, `{"set": …, "infinite": …, "number": …}` after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Number {
    /// Nothing was said.
    #[default]
    Unset,
    /// No bound.
    Infinite,
    Of(u64),
}

impl Number {
    /// The number, where there is one.
    pub(crate) const fn get(self) -> Option<u64> {
        match self {
            Self::Of(number) => Some(number),
            Self::Unset | Self::Infinite => None,
        }
    }

    /// The number, where there is one and it is not zero: zero often stands for nothing.
    pub(crate) fn some(self) -> Option<u32> {
        self.get().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, null, or set, infinite and number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number::Of(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(u64::try_from(number).map_or(Number::Unset, Number::Of))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(if number >= 0.0 { Number::Of(number as u64) } else { Number::Unset })
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
        match text {
            "" => Ok(Number::Unset),
            _ => text.parse().map(Number::Of).map_err(|_| E::custom(format!("no number: {text}"))),
        }
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::Unset)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        let (mut set, mut infinite, mut number) = (true, false, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "set" => set = map.next_value()?,
                "infinite" => infinite = map.next_value()?,
                "number" => number = map.next_value::<Number>()?.get(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(match number {
            _ if infinite => Number::Infinite,
            Some(number) if set => Number::Of(number),
            _ => Number::Unset,
        })
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberVisitor)
    }
}

/// Words: one text up to some version, a list of texts after it, or null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<String>);

impl Words {
    /// True where the word is among them, in any case.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(word))
    }

    /// All of them as one list.
    pub(crate) fn joined(&self) -> String {
        self.0.join(",")
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of texts or null")
    }

    fn visit_str<E>(self, text: &str) -> Result<Words, E> {
        let word = (!text.is_empty()).then(|| text.to_owned());
        Ok(Words(word.into_iter().collect()))
    }

    fn visit_unit<E>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Words, E> {
        Ok(Words(vec![yes.to_string()]))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Words, E> {
        Ok(Words(vec![number.to_string()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element::<String>()? {
            words.push(word);
        }
        Ok(Words(words))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Words, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Words::default())
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WordsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, Words};

    fn number(text: &str) -> Number {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn numbers_of_every_version_are_read() {
        assert_eq!(number("60"), Number::Of(60));
        assert_eq!(number("null"), Number::Unset);
        assert_eq!(number("60.0"), Number::Of(60));
        assert_eq!(number(r#"{"set":true,"infinite":false,"number":60}"#), Number::Of(60));
        assert_eq!(number(r#"{"set":false,"infinite":true,"number":0}"#), Number::Infinite);
        assert_eq!(number(r#"{"set":false,"infinite":false,"number":0}"#), Number::Unset);
        assert!(serde_json::from_str::<Number>("\"many\"").is_err());
    }

    #[test]
    fn words_are_one_text_or_a_list() {
        let words = |text: &str| serde_json::from_str::<Words>(text).expect(text);
        assert!(words("\"PENDING\"").has("pending"));
        assert_eq!(words("[\"n1\",\"n2\"]").joined(), "n1,n2");
        assert_eq!(words("null"), words("\"\""));
    }
}
