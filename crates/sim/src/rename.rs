//! A value serialised with every text in it replaced, and its structure kept.
//!
//! Field names and enum variants are structure and stay; whatever is data goes through a function,
//! keys of maps too. So a field that a later release adds is replaced without anybody thinking of it.

use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use std::fmt::Display;

/// What becomes of a text.
pub(crate) type Replace<'a> = &'a dyn Fn(&str) -> String;

/// A value whose texts are replaced when it is serialised.
pub(crate) struct Renamed<'a, T: ?Sized> {
    pub(crate) value: &'a T,
    pub(crate) replace: Replace<'a>,
}

impl<T: Serialize + ?Sized> Serialize for Renamed<'_, T> {
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Renaming { inner, replace: self.replace, tag: "" })
    }
}

/// Fields whose text names nothing of the site and has a meaning: digests, MIG profiles, GPU
/// models, time zones, rules of recurrence.
const KEPT: &[&str] = &["payload", "profile", "model", "zone", "time_zone", "rule", "rrule"];

/// Enums that write their variant as the first field: the enum's name and that field's.
const TAGGED: &[(&str, &str)] = &[("Reason", "reason"), ("EventKind", "event")];

/// What stands for a variant's field in a struct with flattened parts. Serde writes one as a map
/// that does not say how long it is; its keys are fields.
const FLAT: &str = "*";

/// A serialiser, or a part of one, that passes all but texts through.
struct Renaming<'a, S> {
    inner: S,
    replace: Replace<'a>,
    /// The field that says the variant, where this is an enum with one; [`FLAT`] in its stead.
    tag: &'static str,
}

/// Methods that change nothing.
macro_rules! pass {
    ($($method:ident($kind:ty),)*) => {
        $(fn $method(self, value: $kind) -> Result<S::Ok, S::Error> { self.inner.$method(value) })*
    };
}

impl<'a, S: Serializer> Serializer for Renaming<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Renaming<'a, S::SerializeSeq>;
    type SerializeTuple = Renaming<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Renaming<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Renaming<'a, S::SerializeTupleVariant>;
    type SerializeMap = Renaming<'a, S::SerializeMap>;
    type SerializeStruct = Renaming<'a, S::SerializeStruct>;
    type SerializeStructVariant = Renaming<'a, S::SerializeStructVariant>;

    pass! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32),
        serialize_i64(i64), serialize_i128(i128), serialize_u8(u8), serialize_u16(u16),
        serialize_u32(u32), serialize_u64(u64), serialize_u128(u128), serialize_f32(f32),
        serialize_f64(f64), serialize_char(char), serialize_bytes(&[u8]),
    }

    fn serialize_str(self, text: &str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_str(&(self.replace)(text))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.serialize_str(&value.to_string())
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.serialize_some(&Renamed { value, replace: self.replace })
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_struct(name)
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_struct(name, &Renamed { value, replace: self.replace })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = Renamed { value, replace: self.replace };
        self.inner.serialize_newtype_variant(name, index, variant, &value)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        Ok(Renaming { inner: self.inner.serialize_seq(len)?, replace: self.replace, tag: "" })
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        Ok(Renaming { inner: self.inner.serialize_tuple(len)?, replace: self.replace, tag: "" })
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        Ok(Renaming {
            inner: self.inner.serialize_tuple_struct(name, len)?,
            replace: self.replace,
            tag: "",
        })
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let inner = self.inner.serialize_tuple_variant(name, index, variant, len)?;
        Ok(Renaming { inner, replace: self.replace, tag: "" })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        let tag = if len.is_none() { FLAT } else { "" };
        Ok(Renaming { inner: self.inner.serialize_map(len)?, replace: self.replace, tag })
    }

    fn serialize_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        let tag = TAGGED.iter().find(|(tagged, _)| *tagged == name).map_or("", |(_, tag)| tag);
        Ok(Renaming { inner: self.inner.serialize_struct(name, len)?, replace: self.replace, tag })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let inner = self.inner.serialize_struct_variant(name, index, variant, len)?;
        Ok(Renaming { inner, replace: self.replace, tag: "" })
    }
}

/// Sequences of one kind of element.
macro_rules! elements {
    ($($part:ident::$method:ident,)*) => {
        $(impl<S: $part> $part for Renaming<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                let value = Renamed { value, replace: self.replace };
                self.inner.$method(&value)
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

elements! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

/// Parts with named fields.
macro_rules! fields {
    ($($part:ident,)*) => {
        $(impl<S: $part> $part for Renaming<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                if KEPT.contains(&key) || key == self.tag {
                    return self.inner.serialize_field(key, value);
                }
                let value = Renamed { value, replace: self.replace };
                self.inner.serialize_field(key, &value)
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

fields! { SerializeStruct, SerializeStructVariant, }

impl<S: SerializeMap> SerializeMap for Renaming<'_, S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        match self.tag {
            FLAT => self.inner.serialize_key(key),
            _ => self.inner.serialize_key(&Renamed { value: key, replace: self.replace }),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.inner.serialize_value(&Renamed { value, replace: self.replace })
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}
