impl serde::Serialize for AdvanceIdRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.AdvanceIdRequest", len)?;
        if true {
            struct_ser.serialize_field("series", &self.series)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("to", ToString::to_string(&self.to).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for AdvanceIdRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "series",
            "to",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Series,
            To,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "series" => Ok(GeneratedField::Series),
                            "to" => Ok(GeneratedField::To),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = AdvanceIdRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.AdvanceIdRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<AdvanceIdRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut series__ = None;
                let mut to__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Series => {
                            if series__.is_some() {
                                return Err(serde::de::Error::duplicate_field("series"));
                            }
                            series__ = Some(map_.next_value()?);
                        }
                        GeneratedField::To => {
                            if to__.is_some() {
                                return Err(serde::de::Error::duplicate_field("to"));
                            }
                            to__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(AdvanceIdRequest {
                    series: series__.unwrap_or_default(),
                    to: to__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.AdvanceIdRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for AdvanceIdResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.AdvanceIdResponse", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for AdvanceIdResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "epoch",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Epoch,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "epoch" => Ok(GeneratedField::Epoch),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = AdvanceIdResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.AdvanceIdResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<AdvanceIdResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut epoch__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(AdvanceIdResponse {
                    epoch: epoch__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.AdvanceIdResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for AdvanceKeyRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.AdvanceKeyRequest", len)?;
        if true {
            struct_ser.serialize_field("keyspace", &self.keyspace)?;
        }
        if true {
            struct_ser.serialize_field("key", &self.key)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("rawKey", pbjson::private::base64::encode(&self.raw_key).as_str())?;
        }
        if let Some(v) = self.to.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("to", ToString::to_string(&v).as_str())?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for AdvanceKeyRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "keyspace",
            "key",
            "raw_key",
            "rawKey",
            "to",
            "route_version",
            "routeVersion",
            "epoch",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Keyspace,
            Key,
            RawKey,
            To,
            RouteVersion,
            Epoch,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "keyspace" => Ok(GeneratedField::Keyspace),
                            "key" => Ok(GeneratedField::Key),
                            "rawKey" | "raw_key" => Ok(GeneratedField::RawKey),
                            "to" => Ok(GeneratedField::To),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "epoch" => Ok(GeneratedField::Epoch),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = AdvanceKeyRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.AdvanceKeyRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<AdvanceKeyRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut keyspace__ = None;
                let mut key__ = None;
                let mut raw_key__ = None;
                let mut to__ = None;
                let mut route_version__ = None;
                let mut epoch__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Keyspace => {
                            if keyspace__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keyspace"));
                            }
                            keyspace__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Key => {
                            if key__.is_some() {
                                return Err(serde::de::Error::duplicate_field("key"));
                            }
                            key__ = Some(map_.next_value()?);
                        }
                        GeneratedField::RawKey => {
                            if raw_key__.is_some() {
                                return Err(serde::de::Error::duplicate_field("rawKey"));
                            }
                            raw_key__ = 
                                Some(map_.next_value::<::pbjson::private::BytesDeserialize<_>>()?.0)
                            ;
                        }
                        GeneratedField::To => {
                            if to__.is_some() {
                                return Err(serde::de::Error::duplicate_field("to"));
                            }
                            to__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(AdvanceKeyRequest {
                    keyspace: keyspace__.unwrap_or_default(),
                    key: key__.unwrap_or_default(),
                    raw_key: raw_key__.unwrap_or_default(),
                    to: to__,
                    route_version: route_version__,
                    epoch: epoch__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.AdvanceKeyRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for AdvanceRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.AdvanceRequest", len)?;
        if let Some(v) = self.uid.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("uid", ToString::to_string(&v).as_str())?;
        }
        if let Some(v) = self.to.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("to", ToString::to_string(&v).as_str())?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if true {
            struct_ser.serialize_field("hops", &self.hops)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for AdvanceRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "uid",
            "to",
            "route_version",
            "routeVersion",
            "epoch",
            "hops",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Uid,
            To,
            RouteVersion,
            Epoch,
            Hops,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "uid" => Ok(GeneratedField::Uid),
                            "to" => Ok(GeneratedField::To),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "epoch" => Ok(GeneratedField::Epoch),
                            "hops" => Ok(GeneratedField::Hops),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = AdvanceRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.AdvanceRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<AdvanceRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut uid__ = None;
                let mut to__ = None;
                let mut route_version__ = None;
                let mut epoch__ = None;
                let mut hops__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Uid => {
                            if uid__.is_some() {
                                return Err(serde::de::Error::duplicate_field("uid"));
                            }
                            uid__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::To => {
                            if to__.is_some() {
                                return Err(serde::de::Error::duplicate_field("to"));
                            }
                            to__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Hops => {
                            if hops__.is_some() {
                                return Err(serde::de::Error::duplicate_field("hops"));
                            }
                            hops__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(AdvanceRequest {
                    uid: uid__,
                    to: to__,
                    route_version: route_version__,
                    epoch: epoch__.unwrap_or_default(),
                    hops: hops__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.AdvanceRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for AdvanceResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.AdvanceResponse", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if let Some(v) = self.routes.as_ref() {
            struct_ser.serialize_field("routes", v)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for AdvanceResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "epoch",
            "routes",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Epoch,
            Routes,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "epoch" => Ok(GeneratedField::Epoch),
                            "routes" => Ok(GeneratedField::Routes),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = AdvanceResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.AdvanceResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<AdvanceResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut epoch__ = None;
                let mut routes__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Routes => {
                            if routes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routes"));
                            }
                            routes__ = map_.next_value()?;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(AdvanceResponse {
                    epoch: epoch__.unwrap_or_default(),
                    routes: routes__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.AdvanceResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CounterShape {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CounterShape", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("offset", ToString::to_string(&self.offset).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("increment", ToString::to_string(&self.increment).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("maxId", ToString::to_string(&self.max_id).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CounterShape {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "offset",
            "increment",
            "max_id",
            "maxId",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Offset,
            Increment,
            MaxId,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "offset" => Ok(GeneratedField::Offset),
                            "increment" => Ok(GeneratedField::Increment),
                            "maxId" | "max_id" => Ok(GeneratedField::MaxId),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CounterShape;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CounterShape")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CounterShape, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut offset__ = None;
                let mut increment__ = None;
                let mut max_id__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Offset => {
                            if offset__.is_some() {
                                return Err(serde::de::Error::duplicate_field("offset"));
                            }
                            offset__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Increment => {
                            if increment__.is_some() {
                                return Err(serde::de::Error::duplicate_field("increment"));
                            }
                            increment__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::MaxId => {
                            if max_id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("maxId"));
                            }
                            max_id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CounterShape {
                    offset: offset__.unwrap_or_default(),
                    increment: increment__.unwrap_or_default(),
                    max_id: max_id__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CounterShape", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentIdRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentIdRequest", len)?;
        if true {
            struct_ser.serialize_field("series", &self.series)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentIdRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "series",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Series,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "series" => Ok(GeneratedField::Series),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentIdRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentIdRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentIdRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut series__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Series => {
                            if series__.is_some() {
                                return Err(serde::de::Error::duplicate_field("series"));
                            }
                            series__ = Some(map_.next_value()?);
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentIdRequest {
                    series: series__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentIdRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentIdResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentIdResponse", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("id", ToString::to_string(&self.id).as_str())?;
        }
        if true {
            struct_ser.serialize_field("exact", &self.exact)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentIdResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "id",
            "exact",
            "epoch",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Id,
            Exact,
            Epoch,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "id" => Ok(GeneratedField::Id),
                            "exact" => Ok(GeneratedField::Exact),
                            "epoch" => Ok(GeneratedField::Epoch),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentIdResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentIdResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentIdResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut id__ = None;
                let mut exact__ = None;
                let mut epoch__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Id => {
                            if id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("id"));
                            }
                            id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Exact => {
                            if exact__.is_some() {
                                return Err(serde::de::Error::duplicate_field("exact"));
                            }
                            exact__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentIdResponse {
                    id: id__.unwrap_or_default(),
                    exact: exact__.unwrap_or_default(),
                    epoch: epoch__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentIdResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentKeyRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentKeyRequest", len)?;
        if true {
            struct_ser.serialize_field("keyspace", &self.keyspace)?;
        }
        if true {
            struct_ser.serialize_field("key", &self.key)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("rawKey", pbjson::private::base64::encode(&self.raw_key).as_str())?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentKeyRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "keyspace",
            "key",
            "raw_key",
            "rawKey",
            "route_version",
            "routeVersion",
            "epoch",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Keyspace,
            Key,
            RawKey,
            RouteVersion,
            Epoch,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "keyspace" => Ok(GeneratedField::Keyspace),
                            "key" => Ok(GeneratedField::Key),
                            "rawKey" | "raw_key" => Ok(GeneratedField::RawKey),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "epoch" => Ok(GeneratedField::Epoch),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentKeyRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentKeyRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentKeyRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut keyspace__ = None;
                let mut key__ = None;
                let mut raw_key__ = None;
                let mut route_version__ = None;
                let mut epoch__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Keyspace => {
                            if keyspace__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keyspace"));
                            }
                            keyspace__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Key => {
                            if key__.is_some() {
                                return Err(serde::de::Error::duplicate_field("key"));
                            }
                            key__ = Some(map_.next_value()?);
                        }
                        GeneratedField::RawKey => {
                            if raw_key__.is_some() {
                                return Err(serde::de::Error::duplicate_field("rawKey"));
                            }
                            raw_key__ = 
                                Some(map_.next_value::<::pbjson::private::BytesDeserialize<_>>()?.0)
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentKeyRequest {
                    keyspace: keyspace__.unwrap_or_default(),
                    key: key__.unwrap_or_default(),
                    raw_key: raw_key__.unwrap_or_default(),
                    route_version: route_version__,
                    epoch: epoch__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentKeyRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentKeysRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentKeysRequest", len)?;
        if true {
            struct_ser.serialize_field("keyspace", &self.keyspace)?;
        }
        if true {
            struct_ser.serialize_field("keys", &self.keys)?;
        }
        if true {
            struct_ser.serialize_field("rawKeys", &self.raw_keys.iter().map(pbjson::private::base64::encode).collect::<Vec<_>>())?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            struct_ser.serialize_field("knownEpochs", &self.known_epochs.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentKeysRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "keyspace",
            "keys",
            "raw_keys",
            "rawKeys",
            "route_version",
            "routeVersion",
            "known_epochs",
            "knownEpochs",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Keyspace,
            Keys,
            RawKeys,
            RouteVersion,
            KnownEpochs,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "keyspace" => Ok(GeneratedField::Keyspace),
                            "keys" => Ok(GeneratedField::Keys),
                            "rawKeys" | "raw_keys" => Ok(GeneratedField::RawKeys),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "knownEpochs" | "known_epochs" => Ok(GeneratedField::KnownEpochs),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentKeysRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentKeysRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentKeysRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut keyspace__ = None;
                let mut keys__ = None;
                let mut raw_keys__ = None;
                let mut route_version__ = None;
                let mut known_epochs__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Keyspace => {
                            if keyspace__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keyspace"));
                            }
                            keyspace__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Keys => {
                            if keys__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keys"));
                            }
                            keys__ = Some(map_.next_value()?);
                        }
                        GeneratedField::RawKeys => {
                            if raw_keys__.is_some() {
                                return Err(serde::de::Error::duplicate_field("rawKeys"));
                            }
                            raw_keys__ = 
                                Some(map_.next_value::<Vec<::pbjson::private::BytesDeserialize<_>>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::KnownEpochs => {
                            if known_epochs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("knownEpochs"));
                            }
                            known_epochs__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentKeysRequest {
                    keyspace: keyspace__.unwrap_or_default(),
                    keys: keys__.unwrap_or_default(),
                    raw_keys: raw_keys__.unwrap_or_default(),
                    route_version: route_version__,
                    known_epochs: known_epochs__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentKeysRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentManyRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentManyRequest", len)?;
        if true {
            struct_ser.serialize_field("uids", &self.uids.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            struct_ser.serialize_field("hops", &self.hops)?;
        }
        if true {
            struct_ser.serialize_field("knownEpochs", &self.known_epochs.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentManyRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "uids",
            "route_version",
            "routeVersion",
            "hops",
            "known_epochs",
            "knownEpochs",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Uids,
            RouteVersion,
            Hops,
            KnownEpochs,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "uids" => Ok(GeneratedField::Uids),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "hops" => Ok(GeneratedField::Hops),
                            "knownEpochs" | "known_epochs" => Ok(GeneratedField::KnownEpochs),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentManyRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentManyRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentManyRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut uids__ = None;
                let mut route_version__ = None;
                let mut hops__ = None;
                let mut known_epochs__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Uids => {
                            if uids__.is_some() {
                                return Err(serde::de::Error::duplicate_field("uids"));
                            }
                            uids__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Hops => {
                            if hops__.is_some() {
                                return Err(serde::de::Error::duplicate_field("hops"));
                            }
                            hops__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::KnownEpochs => {
                            if known_epochs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("knownEpochs"));
                            }
                            known_epochs__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentManyRequest {
                    uids: uids__.unwrap_or_default(),
                    route_version: route_version__,
                    hops: hops__.unwrap_or_default(),
                    known_epochs: known_epochs__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentManyRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentManyResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentManyResponse", len)?;
        if true {
            struct_ser.serialize_field("values", &self.values.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        if true {
            let v = self.exactness.iter().cloned().map(|v| {
                Exactness::try_from(v)
                    .map_err(|_| serde::ser::Error::custom(format!("Invalid variant {}", v)))
                }).collect::<std::result::Result<Vec<_>, _>>()?;
            struct_ser.serialize_field("exactness", &v)?;
        }
        if true {
            struct_ser.serialize_field("epochs", &self.epochs.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        if true {
            struct_ser.serialize_field("errors", &self.errors)?;
        }
        if let Some(v) = self.routes.as_ref() {
            struct_ser.serialize_field("routes", v)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentManyResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "values",
            "exactness",
            "epochs",
            "errors",
            "routes",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Values,
            Exactness,
            Epochs,
            Errors,
            Routes,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "values" => Ok(GeneratedField::Values),
                            "exactness" => Ok(GeneratedField::Exactness),
                            "epochs" => Ok(GeneratedField::Epochs),
                            "errors" => Ok(GeneratedField::Errors),
                            "routes" => Ok(GeneratedField::Routes),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentManyResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentManyResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentManyResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut values__ = None;
                let mut exactness__ = None;
                let mut epochs__ = None;
                let mut errors__ = None;
                let mut routes__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Values => {
                            if values__.is_some() {
                                return Err(serde::de::Error::duplicate_field("values"));
                            }
                            values__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Exactness => {
                            if exactness__.is_some() {
                                return Err(serde::de::Error::duplicate_field("exactness"));
                            }
                            exactness__ = Some(map_.next_value::<Vec<Exactness>>()?.into_iter().map(|x| x as i32).collect());
                        }
                        GeneratedField::Epochs => {
                            if epochs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epochs"));
                            }
                            epochs__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Errors => {
                            if errors__.is_some() {
                                return Err(serde::de::Error::duplicate_field("errors"));
                            }
                            errors__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Routes => {
                            if routes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routes"));
                            }
                            routes__ = map_.next_value()?;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentManyResponse {
                    values: values__.unwrap_or_default(),
                    exactness: exactness__.unwrap_or_default(),
                    epochs: epochs__.unwrap_or_default(),
                    errors: errors__.unwrap_or_default(),
                    routes: routes__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentManyResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentRequest", len)?;
        if let Some(v) = self.uid.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("uid", ToString::to_string(&v).as_str())?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if true {
            struct_ser.serialize_field("hops", &self.hops)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "uid",
            "route_version",
            "routeVersion",
            "epoch",
            "hops",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Uid,
            RouteVersion,
            Epoch,
            Hops,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "uid" => Ok(GeneratedField::Uid),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "epoch" => Ok(GeneratedField::Epoch),
                            "hops" => Ok(GeneratedField::Hops),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut uid__ = None;
                let mut route_version__ = None;
                let mut epoch__ = None;
                let mut hops__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Uid => {
                            if uid__.is_some() {
                                return Err(serde::de::Error::duplicate_field("uid"));
                            }
                            uid__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Hops => {
                            if hops__.is_some() {
                                return Err(serde::de::Error::duplicate_field("hops"));
                            }
                            hops__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentRequest {
                    uid: uid__,
                    route_version: route_version__,
                    epoch: epoch__.unwrap_or_default(),
                    hops: hops__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for CurrentResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.CurrentResponse", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("value", ToString::to_string(&self.value).as_str())?;
        }
        if true {
            let v = Exactness::try_from(self.exactness)
                .map_err(|_| serde::ser::Error::custom(format!("Invalid variant {}", self.exactness)))?;
            struct_ser.serialize_field("exactness", &v)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if let Some(v) = self.routes.as_ref() {
            struct_ser.serialize_field("routes", v)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for CurrentResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "value",
            "exactness",
            "epoch",
            "routes",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Value,
            Exactness,
            Epoch,
            Routes,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "value" => Ok(GeneratedField::Value),
                            "exactness" => Ok(GeneratedField::Exactness),
                            "epoch" => Ok(GeneratedField::Epoch),
                            "routes" => Ok(GeneratedField::Routes),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = CurrentResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.CurrentResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<CurrentResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut value__ = None;
                let mut exactness__ = None;
                let mut epoch__ = None;
                let mut routes__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Value => {
                            if value__.is_some() {
                                return Err(serde::de::Error::duplicate_field("value"));
                            }
                            value__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Exactness => {
                            if exactness__.is_some() {
                                return Err(serde::de::Error::duplicate_field("exactness"));
                            }
                            exactness__ = Some(map_.next_value::<Exactness>()? as i32);
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Routes => {
                            if routes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routes"));
                            }
                            routes__ = map_.next_value()?;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(CurrentResponse {
                    value: value__.unwrap_or_default(),
                    exactness: exactness__.unwrap_or_default(),
                    epoch: epoch__.unwrap_or_default(),
                    routes: routes__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.CurrentResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for DecodeIdRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.DecodeIdRequest", len)?;
        if true {
            struct_ser.serialize_field("series", &self.series)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("id", ToString::to_string(&self.id).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for DecodeIdRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "series",
            "id",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Series,
            Id,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "series" => Ok(GeneratedField::Series),
                            "id" => Ok(GeneratedField::Id),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = DecodeIdRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.DecodeIdRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<DecodeIdRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut series__ = None;
                let mut id__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Series => {
                            if series__.is_some() {
                                return Err(serde::de::Error::duplicate_field("series"));
                            }
                            series__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Id => {
                            if id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("id"));
                            }
                            id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(DecodeIdRequest {
                    series: series__.unwrap_or_default(),
                    id: id__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.DecodeIdRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for DecodeIdResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.DecodeIdResponse", len)?;
        if true {
            struct_ser.serialize_field("lane", &self.lane)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("number", ToString::to_string(&self.number).as_str())?;
        }
        if let Some(v) = self.unix_ms.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("unixMs", ToString::to_string(&v).as_str())?;
        }
        if let Some(v) = self.seq.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("seq", ToString::to_string(&v).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for DecodeIdResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "lane",
            "number",
            "unix_ms",
            "unixMs",
            "seq",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Lane,
            Number,
            UnixMs,
            Seq,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "lane" => Ok(GeneratedField::Lane),
                            "number" => Ok(GeneratedField::Number),
                            "unixMs" | "unix_ms" => Ok(GeneratedField::UnixMs),
                            "seq" => Ok(GeneratedField::Seq),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = DecodeIdResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.DecodeIdResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<DecodeIdResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut lane__ = None;
                let mut number__ = None;
                let mut unix_ms__ = None;
                let mut seq__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Lane => {
                            if lane__.is_some() {
                                return Err(serde::de::Error::duplicate_field("lane"));
                            }
                            lane__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Number => {
                            if number__.is_some() {
                                return Err(serde::de::Error::duplicate_field("number"));
                            }
                            number__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::UnixMs => {
                            if unix_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("unixMs"));
                            }
                            unix_ms__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Seq => {
                            if seq__.is_some() {
                                return Err(serde::de::Error::duplicate_field("seq"));
                            }
                            seq__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(DecodeIdResponse {
                    lane: lane__.unwrap_or_default(),
                    number: number__.unwrap_or_default(),
                    unix_ms: unix_ms__,
                    seq: seq__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.DecodeIdResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for Exactness {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        let variant = match self {
            Self::Unspecified => "EXACTNESS_UNSPECIFIED",
            Self::Exact => "EXACTNESS_EXACT",
            Self::UpperBound => "EXACTNESS_UPPER_BOUND",
        };
        serializer.serialize_str(variant)
    }
}
impl<'de> serde::Deserialize<'de> for Exactness {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "EXACTNESS_UNSPECIFIED",
            "EXACTNESS_EXACT",
            "EXACTNESS_UPPER_BOUND",
        ];

        struct GeneratedVisitor;

        impl serde::de::Visitor<'_> for GeneratedVisitor {
            type Value = Exactness;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, "expected one of: {:?}", &FIELDS)
            }

            fn visit_i64<E>(self, v: i64) -> std::result::Result<Self::Value, E>
            where
                E: serde::de::Error,
            {
                i32::try_from(v)
                    .ok()
                    .and_then(|x| x.try_into().ok())
                    .ok_or_else(|| {
                        serde::de::Error::invalid_value(serde::de::Unexpected::Signed(v), &self)
                    })
            }

            fn visit_u64<E>(self, v: u64) -> std::result::Result<Self::Value, E>
            where
                E: serde::de::Error,
            {
                i32::try_from(v)
                    .ok()
                    .and_then(|x| x.try_into().ok())
                    .ok_or_else(|| {
                        serde::de::Error::invalid_value(serde::de::Unexpected::Unsigned(v), &self)
                    })
            }

            fn visit_str<E>(self, value: &str) -> std::result::Result<Self::Value, E>
            where
                E: serde::de::Error,
            {
                match value {
                    "EXACTNESS_UNSPECIFIED" => Ok(Exactness::Unspecified),
                    "EXACTNESS_EXACT" => Ok(Exactness::Exact),
                    "EXACTNESS_UPPER_BOUND" => Ok(Exactness::UpperBound),
                    _ => Err(serde::de::Error::unknown_variant(value, FIELDS)),
                }
            }
        }
        deserializer.deserialize_any(GeneratedVisitor)
    }
}
impl serde::Serialize for GetRoutesRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.GetRoutesRequest", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("knownVersion", ToString::to_string(&self.known_version).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for GetRoutesRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "known_version",
            "knownVersion",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            KnownVersion,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "knownVersion" | "known_version" => Ok(GeneratedField::KnownVersion),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = GetRoutesRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.GetRoutesRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<GetRoutesRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut known_version__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::KnownVersion => {
                            if known_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("knownVersion"));
                            }
                            known_version__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(GetRoutesRequest {
                    known_version: known_version__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.GetRoutesRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for GetRoutesResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.GetRoutesResponse", len)?;
        if let Some(v) = self.routes.as_ref() {
            struct_ser.serialize_field("routes", v)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for GetRoutesResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "routes",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Routes,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "routes" => Ok(GeneratedField::Routes),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = GetRoutesResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.GetRoutesResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<GetRoutesResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut routes__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Routes => {
                            if routes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routes"));
                            }
                            routes__ = map_.next_value()?;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(GetRoutesResponse {
                    routes: routes__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.GetRoutesResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for Hashing {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.Hashing", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("digest", ToString::to_string(&self.digest).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("seed", pbjson::private::base64::encode(&self.seed).as_str())?;
        }
        if true {
            struct_ser.serialize_field("ofUids", &self.of_uids)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for Hashing {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "digest",
            "seed",
            "of_uids",
            "ofUids",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Digest,
            Seed,
            OfUids,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "digest" => Ok(GeneratedField::Digest),
                            "seed" => Ok(GeneratedField::Seed),
                            "ofUids" | "of_uids" => Ok(GeneratedField::OfUids),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = Hashing;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.Hashing")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<Hashing, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut digest__ = None;
                let mut seed__ = None;
                let mut of_uids__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Digest => {
                            if digest__.is_some() {
                                return Err(serde::de::Error::duplicate_field("digest"));
                            }
                            digest__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Seed => {
                            if seed__.is_some() {
                                return Err(serde::de::Error::duplicate_field("seed"));
                            }
                            seed__ = 
                                Some(map_.next_value::<::pbjson::private::BytesDeserialize<_>>()?.0)
                            ;
                        }
                        GeneratedField::OfUids => {
                            if of_uids__.is_some() {
                                return Err(serde::de::Error::duplicate_field("ofUids"));
                            }
                            of_uids__ = Some(map_.next_value()?);
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Hashing {
                    digest: digest__.unwrap_or_default(),
                    seed: seed__.unwrap_or_default(),
                    of_uids: of_uids__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.Hashing", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for IdRun {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.IdRun", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("first", ToString::to_string(&self.first).as_str())?;
        }
        if true {
            struct_ser.serialize_field("count", &self.count)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for IdRun {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "first",
            "count",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            First,
            Count,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "first" => Ok(GeneratedField::First),
                            "count" => Ok(GeneratedField::Count),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = IdRun;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.IdRun")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<IdRun, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut first__ = None;
                let mut count__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::First => {
                            if first__.is_some() {
                                return Err(serde::de::Error::duplicate_field("first"));
                            }
                            first__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Count => {
                            if count__.is_some() {
                                return Err(serde::de::Error::duplicate_field("count"));
                            }
                            count__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(IdRun {
                    first: first__.unwrap_or_default(),
                    count: count__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.IdRun", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for ItemError {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.ItemError", len)?;
        if true {
            struct_ser.serialize_field("index", &self.index)?;
        }
        if true {
            struct_ser.serialize_field("code", &self.code)?;
        }
        if true {
            struct_ser.serialize_field("reason", &self.reason)?;
        }
        if true {
            struct_ser.serialize_field("message", &self.message)?;
        }
        if true {
            struct_ser.serialize_field("retryAfterMs", &self.retry_after_ms)?;
        }
        if let Some(v) = self.set_id.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("setId", ToString::to_string(&v).as_str())?;
        }
        if let Some(v) = self.since.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("since", ToString::to_string(&v).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for ItemError {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "index",
            "code",
            "reason",
            "message",
            "retry_after_ms",
            "retryAfterMs",
            "set_id",
            "setId",
            "since",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Index,
            Code,
            Reason,
            Message,
            RetryAfterMs,
            SetId,
            Since,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "index" => Ok(GeneratedField::Index),
                            "code" => Ok(GeneratedField::Code),
                            "reason" => Ok(GeneratedField::Reason),
                            "message" => Ok(GeneratedField::Message),
                            "retryAfterMs" | "retry_after_ms" => Ok(GeneratedField::RetryAfterMs),
                            "setId" | "set_id" => Ok(GeneratedField::SetId),
                            "since" => Ok(GeneratedField::Since),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = ItemError;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.ItemError")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<ItemError, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut index__ = None;
                let mut code__ = None;
                let mut reason__ = None;
                let mut message__ = None;
                let mut retry_after_ms__ = None;
                let mut set_id__ = None;
                let mut since__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Index => {
                            if index__.is_some() {
                                return Err(serde::de::Error::duplicate_field("index"));
                            }
                            index__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Code => {
                            if code__.is_some() {
                                return Err(serde::de::Error::duplicate_field("code"));
                            }
                            code__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Reason => {
                            if reason__.is_some() {
                                return Err(serde::de::Error::duplicate_field("reason"));
                            }
                            reason__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Message => {
                            if message__.is_some() {
                                return Err(serde::de::Error::duplicate_field("message"));
                            }
                            message__ = Some(map_.next_value()?);
                        }
                        GeneratedField::RetryAfterMs => {
                            if retry_after_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("retryAfterMs"));
                            }
                            retry_after_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::SetId => {
                            if set_id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("setId"));
                            }
                            set_id__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Since => {
                            if since__.is_some() {
                                return Err(serde::de::Error::duplicate_field("since"));
                            }
                            since__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(ItemError {
                    index: index__.unwrap_or_default(),
                    code: code__.unwrap_or_default(),
                    reason: reason__.unwrap_or_default(),
                    message: message__.unwrap_or_default(),
                    retry_after_ms: retry_after_ms__.unwrap_or_default(),
                    set_id: set_id__,
                    since: since__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.ItemError", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for Lanes {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.Lanes", len)?;
        if true {
            struct_ser.serialize_field("count", &self.count)?;
        }
        if true {
            struct_ser.serialize_field("perSection", &self.per_section)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("start", ToString::to_string(&self.start).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("margin", ToString::to_string(&self.margin).as_str())?;
        }
        if let Some(v) = self.clock.as_ref() {
            struct_ser.serialize_field("clock", v)?;
        }
        if true {
            struct_ser.serialize_field("firstSection", &self.first_section)?;
        }
        if let Some(v) = self.keys.as_ref() {
            struct_ser.serialize_field("keys", v)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for Lanes {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "count",
            "per_section",
            "perSection",
            "start",
            "margin",
            "clock",
            "first_section",
            "firstSection",
            "keys",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Count,
            PerSection,
            Start,
            Margin,
            Clock,
            FirstSection,
            Keys,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "count" => Ok(GeneratedField::Count),
                            "perSection" | "per_section" => Ok(GeneratedField::PerSection),
                            "start" => Ok(GeneratedField::Start),
                            "margin" => Ok(GeneratedField::Margin),
                            "clock" => Ok(GeneratedField::Clock),
                            "firstSection" | "first_section" => Ok(GeneratedField::FirstSection),
                            "keys" => Ok(GeneratedField::Keys),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = Lanes;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.Lanes")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<Lanes, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut count__ = None;
                let mut per_section__ = None;
                let mut start__ = None;
                let mut margin__ = None;
                let mut clock__ = None;
                let mut first_section__ = None;
                let mut keys__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Count => {
                            if count__.is_some() {
                                return Err(serde::de::Error::duplicate_field("count"));
                            }
                            count__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::PerSection => {
                            if per_section__.is_some() {
                                return Err(serde::de::Error::duplicate_field("perSection"));
                            }
                            per_section__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Start => {
                            if start__.is_some() {
                                return Err(serde::de::Error::duplicate_field("start"));
                            }
                            start__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Margin => {
                            if margin__.is_some() {
                                return Err(serde::de::Error::duplicate_field("margin"));
                            }
                            margin__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Clock => {
                            if clock__.is_some() {
                                return Err(serde::de::Error::duplicate_field("clock"));
                            }
                            clock__ = map_.next_value()?;
                        }
                        GeneratedField::FirstSection => {
                            if first_section__.is_some() {
                                return Err(serde::de::Error::duplicate_field("firstSection"));
                            }
                            first_section__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Keys => {
                            if keys__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keys"));
                            }
                            keys__ = map_.next_value()?;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Lanes {
                    count: count__.unwrap_or_default(),
                    per_section: per_section__.unwrap_or_default(),
                    start: start__.unwrap_or_default(),
                    margin: margin__.unwrap_or_default(),
                    clock: clock__,
                    first_section: first_section__.unwrap_or_default(),
                    keys: keys__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.Lanes", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for ListSeriesRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let len = 0;
        let struct_ser = serializer.serialize_struct("seqsvr.v1.ListSeriesRequest", len)?;
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for ListSeriesRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                            Ok(GeneratedField::__SkipField__)
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = ListSeriesRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.ListSeriesRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<ListSeriesRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                while map_.next_key::<GeneratedField>()?.is_some() {
                    let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                }
                Ok(ListSeriesRequest {
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.ListSeriesRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for ListSeriesResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.ListSeriesResponse", len)?;
        if true {
            struct_ser.serialize_field("series", &self.series)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for ListSeriesResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "series",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Series,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "series" => Ok(GeneratedField::Series),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = ListSeriesResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.ListSeriesResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<ListSeriesResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut series__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Series => {
                            if series__.is_some() {
                                return Err(serde::de::Error::duplicate_field("series"));
                            }
                            series__ = Some(map_.next_value()?);
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(ListSeriesResponse {
                    series: series__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.ListSeriesResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for LostAttempts {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.LostAttempts", len)?;
        if true {
            struct_ser.serialize_field("indexes", &self.indexes)?;
        }
        if true {
            struct_ser.serialize_field("attempts", &self.attempts)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for LostAttempts {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "indexes",
            "attempts",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Indexes,
            Attempts,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "indexes" => Ok(GeneratedField::Indexes),
                            "attempts" => Ok(GeneratedField::Attempts),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = LostAttempts;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.LostAttempts")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<LostAttempts, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut indexes__ = None;
                let mut attempts__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Indexes => {
                            if indexes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("indexes"));
                            }
                            indexes__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Attempts => {
                            if attempts__.is_some() {
                                return Err(serde::de::Error::duplicate_field("attempts"));
                            }
                            attempts__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(LostAttempts {
                    indexes: indexes__.unwrap_or_default(),
                    attempts: attempts__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.LostAttempts", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextIdsRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextIdsRequest", len)?;
        if true {
            struct_ser.serialize_field("series", &self.series)?;
        }
        if true {
            struct_ser.serialize_field("count", &self.count)?;
        }
        if let Some(v) = self.lane.as_ref() {
            struct_ser.serialize_field("lane", v)?;
        }
        if let Some(v) = self.after.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("after", ToString::to_string(&v).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextIdsRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "series",
            "count",
            "lane",
            "after",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Series,
            Count,
            Lane,
            After,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "series" => Ok(GeneratedField::Series),
                            "count" => Ok(GeneratedField::Count),
                            "lane" => Ok(GeneratedField::Lane),
                            "after" => Ok(GeneratedField::After),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextIdsRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextIdsRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextIdsRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut series__ = None;
                let mut count__ = None;
                let mut lane__ = None;
                let mut after__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Series => {
                            if series__.is_some() {
                                return Err(serde::de::Error::duplicate_field("series"));
                            }
                            series__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Count => {
                            if count__.is_some() {
                                return Err(serde::de::Error::duplicate_field("count"));
                            }
                            count__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Lane => {
                            if lane__.is_some() {
                                return Err(serde::de::Error::duplicate_field("lane"));
                            }
                            lane__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::After => {
                            if after__.is_some() {
                                return Err(serde::de::Error::duplicate_field("after"));
                            }
                            after__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextIdsRequest {
                    series: series__.unwrap_or_default(),
                    count: count__.unwrap_or_default(),
                    lane: lane__,
                    after: after__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextIdsRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextIdsResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextIdsResponse", len)?;
        if true {
            struct_ser.serialize_field("runs", &self.runs)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("step", ToString::to_string(&self.step).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if true {
            struct_ser.serialize_field("lane", &self.lane)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextIdsResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "runs",
            "step",
            "epoch",
            "lane",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Runs,
            Step,
            Epoch,
            Lane,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "runs" => Ok(GeneratedField::Runs),
                            "step" => Ok(GeneratedField::Step),
                            "epoch" => Ok(GeneratedField::Epoch),
                            "lane" => Ok(GeneratedField::Lane),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextIdsResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextIdsResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextIdsResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut runs__ = None;
                let mut step__ = None;
                let mut epoch__ = None;
                let mut lane__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Runs => {
                            if runs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("runs"));
                            }
                            runs__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Step => {
                            if step__.is_some() {
                                return Err(serde::de::Error::duplicate_field("step"));
                            }
                            step__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Lane => {
                            if lane__.is_some() {
                                return Err(serde::de::Error::duplicate_field("lane"));
                            }
                            lane__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextIdsResponse {
                    runs: runs__.unwrap_or_default(),
                    step: step__.unwrap_or_default(),
                    epoch: epoch__.unwrap_or_default(),
                    lane: lane__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextIdsResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextKeyRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextKeyRequest", len)?;
        if true {
            struct_ser.serialize_field("keyspace", &self.keyspace)?;
        }
        if true {
            struct_ser.serialize_field("key", &self.key)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("rawKey", pbjson::private::base64::encode(&self.raw_key).as_str())?;
        }
        if true {
            struct_ser.serialize_field("count", &self.count)?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextKeyRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "keyspace",
            "key",
            "raw_key",
            "rawKey",
            "count",
            "route_version",
            "routeVersion",
            "epoch",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Keyspace,
            Key,
            RawKey,
            Count,
            RouteVersion,
            Epoch,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "keyspace" => Ok(GeneratedField::Keyspace),
                            "key" => Ok(GeneratedField::Key),
                            "rawKey" | "raw_key" => Ok(GeneratedField::RawKey),
                            "count" => Ok(GeneratedField::Count),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "epoch" => Ok(GeneratedField::Epoch),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextKeyRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextKeyRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextKeyRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut keyspace__ = None;
                let mut key__ = None;
                let mut raw_key__ = None;
                let mut count__ = None;
                let mut route_version__ = None;
                let mut epoch__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Keyspace => {
                            if keyspace__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keyspace"));
                            }
                            keyspace__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Key => {
                            if key__.is_some() {
                                return Err(serde::de::Error::duplicate_field("key"));
                            }
                            key__ = Some(map_.next_value()?);
                        }
                        GeneratedField::RawKey => {
                            if raw_key__.is_some() {
                                return Err(serde::de::Error::duplicate_field("rawKey"));
                            }
                            raw_key__ = 
                                Some(map_.next_value::<::pbjson::private::BytesDeserialize<_>>()?.0)
                            ;
                        }
                        GeneratedField::Count => {
                            if count__.is_some() {
                                return Err(serde::de::Error::duplicate_field("count"));
                            }
                            count__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextKeyRequest {
                    keyspace: keyspace__.unwrap_or_default(),
                    key: key__.unwrap_or_default(),
                    raw_key: raw_key__.unwrap_or_default(),
                    count: count__.unwrap_or_default(),
                    route_version: route_version__,
                    epoch: epoch__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextKeyRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextKeysRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextKeysRequest", len)?;
        if true {
            struct_ser.serialize_field("keyspace", &self.keyspace)?;
        }
        if true {
            struct_ser.serialize_field("keys", &self.keys)?;
        }
        if true {
            struct_ser.serialize_field("rawKeys", &self.raw_keys.iter().map(pbjson::private::base64::encode).collect::<Vec<_>>())?;
        }
        if true {
            struct_ser.serialize_field("counts", &self.counts)?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            struct_ser.serialize_field("knownEpochs", &self.known_epochs.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextKeysRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "keyspace",
            "keys",
            "raw_keys",
            "rawKeys",
            "counts",
            "route_version",
            "routeVersion",
            "known_epochs",
            "knownEpochs",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Keyspace,
            Keys,
            RawKeys,
            Counts,
            RouteVersion,
            KnownEpochs,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "keyspace" => Ok(GeneratedField::Keyspace),
                            "keys" => Ok(GeneratedField::Keys),
                            "rawKeys" | "raw_keys" => Ok(GeneratedField::RawKeys),
                            "counts" => Ok(GeneratedField::Counts),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "knownEpochs" | "known_epochs" => Ok(GeneratedField::KnownEpochs),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextKeysRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextKeysRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextKeysRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut keyspace__ = None;
                let mut keys__ = None;
                let mut raw_keys__ = None;
                let mut counts__ = None;
                let mut route_version__ = None;
                let mut known_epochs__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Keyspace => {
                            if keyspace__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keyspace"));
                            }
                            keyspace__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Keys => {
                            if keys__.is_some() {
                                return Err(serde::de::Error::duplicate_field("keys"));
                            }
                            keys__ = Some(map_.next_value()?);
                        }
                        GeneratedField::RawKeys => {
                            if raw_keys__.is_some() {
                                return Err(serde::de::Error::duplicate_field("rawKeys"));
                            }
                            raw_keys__ = 
                                Some(map_.next_value::<Vec<::pbjson::private::BytesDeserialize<_>>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Counts => {
                            if counts__.is_some() {
                                return Err(serde::de::Error::duplicate_field("counts"));
                            }
                            counts__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::KnownEpochs => {
                            if known_epochs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("knownEpochs"));
                            }
                            known_epochs__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextKeysRequest {
                    keyspace: keyspace__.unwrap_or_default(),
                    keys: keys__.unwrap_or_default(),
                    raw_keys: raw_keys__.unwrap_or_default(),
                    counts: counts__.unwrap_or_default(),
                    route_version: route_version__,
                    known_epochs: known_epochs__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextKeysRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextManyRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextManyRequest", len)?;
        if true {
            struct_ser.serialize_field("uids", &self.uids.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        if true {
            struct_ser.serialize_field("counts", &self.counts)?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            struct_ser.serialize_field("hops", &self.hops)?;
        }
        if true {
            struct_ser.serialize_field("knownEpochs", &self.known_epochs.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextManyRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "uids",
            "counts",
            "route_version",
            "routeVersion",
            "hops",
            "known_epochs",
            "knownEpochs",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Uids,
            Counts,
            RouteVersion,
            Hops,
            KnownEpochs,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "uids" => Ok(GeneratedField::Uids),
                            "counts" => Ok(GeneratedField::Counts),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "hops" => Ok(GeneratedField::Hops),
                            "knownEpochs" | "known_epochs" => Ok(GeneratedField::KnownEpochs),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextManyRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextManyRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextManyRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut uids__ = None;
                let mut counts__ = None;
                let mut route_version__ = None;
                let mut hops__ = None;
                let mut known_epochs__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Uids => {
                            if uids__.is_some() {
                                return Err(serde::de::Error::duplicate_field("uids"));
                            }
                            uids__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Counts => {
                            if counts__.is_some() {
                                return Err(serde::de::Error::duplicate_field("counts"));
                            }
                            counts__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Hops => {
                            if hops__.is_some() {
                                return Err(serde::de::Error::duplicate_field("hops"));
                            }
                            hops__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::KnownEpochs => {
                            if known_epochs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("knownEpochs"));
                            }
                            known_epochs__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextManyRequest {
                    uids: uids__.unwrap_or_default(),
                    counts: counts__.unwrap_or_default(),
                    route_version: route_version__,
                    hops: hops__.unwrap_or_default(),
                    known_epochs: known_epochs__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextManyRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextManyResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextManyResponse", len)?;
        if true {
            struct_ser.serialize_field("values", &self.values.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        if true {
            struct_ser.serialize_field("prevs", &self.prevs.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        if true {
            struct_ser.serialize_field("epochs", &self.epochs.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        if true {
            struct_ser.serialize_field("errors", &self.errors)?;
        }
        if let Some(v) = self.routes.as_ref() {
            struct_ser.serialize_field("routes", v)?;
        }
        if let Some(v) = self.lost.as_ref() {
            struct_ser.serialize_field("lost", v)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextManyResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "values",
            "prevs",
            "epochs",
            "errors",
            "routes",
            "lost",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Values,
            Prevs,
            Epochs,
            Errors,
            Routes,
            Lost,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "values" => Ok(GeneratedField::Values),
                            "prevs" => Ok(GeneratedField::Prevs),
                            "epochs" => Ok(GeneratedField::Epochs),
                            "errors" => Ok(GeneratedField::Errors),
                            "routes" => Ok(GeneratedField::Routes),
                            "lost" => Ok(GeneratedField::Lost),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextManyResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextManyResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextManyResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut values__ = None;
                let mut prevs__ = None;
                let mut epochs__ = None;
                let mut errors__ = None;
                let mut routes__ = None;
                let mut lost__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Values => {
                            if values__.is_some() {
                                return Err(serde::de::Error::duplicate_field("values"));
                            }
                            values__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Prevs => {
                            if prevs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("prevs"));
                            }
                            prevs__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Epochs => {
                            if epochs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epochs"));
                            }
                            epochs__ = 
                                Some(map_.next_value::<crate::json::List<_>>()?
                                    .into_iter().map(|x| x.0).collect())
                            ;
                        }
                        GeneratedField::Errors => {
                            if errors__.is_some() {
                                return Err(serde::de::Error::duplicate_field("errors"));
                            }
                            errors__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Routes => {
                            if routes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routes"));
                            }
                            routes__ = map_.next_value()?;
                        }
                        GeneratedField::Lost => {
                            if lost__.is_some() {
                                return Err(serde::de::Error::duplicate_field("lost"));
                            }
                            lost__ = map_.next_value()?;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextManyResponse {
                    values: values__.unwrap_or_default(),
                    prevs: prevs__.unwrap_or_default(),
                    epochs: epochs__.unwrap_or_default(),
                    errors: errors__.unwrap_or_default(),
                    routes: routes__,
                    lost: lost__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextManyResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextRequest {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextRequest", len)?;
        if let Some(v) = self.uid.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("uid", ToString::to_string(&v).as_str())?;
        }
        if true {
            struct_ser.serialize_field("count", &self.count)?;
        }
        if let Some(v) = self.route_version.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("routeVersion", ToString::to_string(&v).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if true {
            struct_ser.serialize_field("hops", &self.hops)?;
        }
        if let Some(v) = self.above.as_ref() {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("above", ToString::to_string(&v).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextRequest {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "uid",
            "count",
            "route_version",
            "routeVersion",
            "epoch",
            "hops",
            "above",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Uid,
            Count,
            RouteVersion,
            Epoch,
            Hops,
            Above,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "uid" => Ok(GeneratedField::Uid),
                            "count" => Ok(GeneratedField::Count),
                            "routeVersion" | "route_version" => Ok(GeneratedField::RouteVersion),
                            "epoch" => Ok(GeneratedField::Epoch),
                            "hops" => Ok(GeneratedField::Hops),
                            "above" => Ok(GeneratedField::Above),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextRequest;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextRequest")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextRequest, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut uid__ = None;
                let mut count__ = None;
                let mut route_version__ = None;
                let mut epoch__ = None;
                let mut hops__ = None;
                let mut above__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Uid => {
                            if uid__.is_some() {
                                return Err(serde::de::Error::duplicate_field("uid"));
                            }
                            uid__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Count => {
                            if count__.is_some() {
                                return Err(serde::de::Error::duplicate_field("count"));
                            }
                            count__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::RouteVersion => {
                            if route_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routeVersion"));
                            }
                            route_version__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Hops => {
                            if hops__.is_some() {
                                return Err(serde::de::Error::duplicate_field("hops"));
                            }
                            hops__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Above => {
                            if above__.is_some() {
                                return Err(serde::de::Error::duplicate_field("above"));
                            }
                            above__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextRequest {
                    uid: uid__,
                    count: count__.unwrap_or_default(),
                    route_version: route_version__,
                    epoch: epoch__.unwrap_or_default(),
                    hops: hops__.unwrap_or_default(),
                    above: above__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextRequest", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for NextResponse {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.NextResponse", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("value", ToString::to_string(&self.value).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("prev", ToString::to_string(&self.prev).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if let Some(v) = self.routes.as_ref() {
            struct_ser.serialize_field("routes", v)?;
        }
        if let Some(v) = self.lost.as_ref() {
            struct_ser.serialize_field("lost", v)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for NextResponse {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "value",
            "prev",
            "epoch",
            "routes",
            "lost",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Value,
            Prev,
            Epoch,
            Routes,
            Lost,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "value" => Ok(GeneratedField::Value),
                            "prev" => Ok(GeneratedField::Prev),
                            "epoch" => Ok(GeneratedField::Epoch),
                            "routes" => Ok(GeneratedField::Routes),
                            "lost" => Ok(GeneratedField::Lost),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = NextResponse;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.NextResponse")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<NextResponse, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut value__ = None;
                let mut prev__ = None;
                let mut epoch__ = None;
                let mut routes__ = None;
                let mut lost__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Value => {
                            if value__.is_some() {
                                return Err(serde::de::Error::duplicate_field("value"));
                            }
                            value__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Prev => {
                            if prev__.is_some() {
                                return Err(serde::de::Error::duplicate_field("prev"));
                            }
                            prev__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Routes => {
                            if routes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("routes"));
                            }
                            routes__ = map_.next_value()?;
                        }
                        GeneratedField::Lost => {
                            if lost__.is_some() {
                                return Err(serde::de::Error::duplicate_field("lost"));
                            }
                            lost__ = 
                                map_.next_value::<::std::option::Option<crate::json::Number<_>>>()?.map(|x| x.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(NextResponse {
                    value: value__.unwrap_or_default(),
                    prev: prev__.unwrap_or_default(),
                    epoch: epoch__.unwrap_or_default(),
                    routes: routes__,
                    lost: lost__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.NextResponse", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for RouteNode {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.RouteNode", len)?;
        if true {
            struct_ser.serialize_field("id", &self.id)?;
        }
        if true {
            struct_ser.serialize_field("name", &self.name)?;
        }
        if true {
            struct_ser.serialize_field("addr", &self.addr)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for RouteNode {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "id",
            "name",
            "addr",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Id,
            Name,
            Addr,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "id" => Ok(GeneratedField::Id),
                            "name" => Ok(GeneratedField::Name),
                            "addr" => Ok(GeneratedField::Addr),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = RouteNode;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.RouteNode")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<RouteNode, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut id__ = None;
                let mut name__ = None;
                let mut addr__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Id => {
                            if id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("id"));
                            }
                            id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Name => {
                            if name__.is_some() {
                                return Err(serde::de::Error::duplicate_field("name"));
                            }
                            name__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Addr => {
                            if addr__.is_some() {
                                return Err(serde::de::Error::duplicate_field("addr"));
                            }
                            addr__ = Some(map_.next_value()?);
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(RouteNode {
                    id: id__.unwrap_or_default(),
                    name: name__.unwrap_or_default(),
                    addr: addr__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.RouteNode", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for RouteRun {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.RouteRun", len)?;
        if true {
            struct_ser.serialize_field("firstSection", &self.first_section)?;
        }
        if true {
            struct_ser.serialize_field("sections", &self.sections)?;
        }
        if true {
            struct_ser.serialize_field("owner", &self.owner)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epoch", ToString::to_string(&self.epoch).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("awaySetId", ToString::to_string(&self.away_set_id).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for RouteRun {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "first_section",
            "firstSection",
            "sections",
            "owner",
            "epoch",
            "away_set_id",
            "awaySetId",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            FirstSection,
            Sections,
            Owner,
            Epoch,
            AwaySetId,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "firstSection" | "first_section" => Ok(GeneratedField::FirstSection),
                            "sections" => Ok(GeneratedField::Sections),
                            "owner" => Ok(GeneratedField::Owner),
                            "epoch" => Ok(GeneratedField::Epoch),
                            "awaySetId" | "away_set_id" => Ok(GeneratedField::AwaySetId),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = RouteRun;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.RouteRun")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<RouteRun, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut first_section__ = None;
                let mut sections__ = None;
                let mut owner__ = None;
                let mut epoch__ = None;
                let mut away_set_id__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::FirstSection => {
                            if first_section__.is_some() {
                                return Err(serde::de::Error::duplicate_field("firstSection"));
                            }
                            first_section__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Sections => {
                            if sections__.is_some() {
                                return Err(serde::de::Error::duplicate_field("sections"));
                            }
                            sections__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Owner => {
                            if owner__.is_some() {
                                return Err(serde::de::Error::duplicate_field("owner"));
                            }
                            owner__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Epoch => {
                            if epoch__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epoch"));
                            }
                            epoch__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::AwaySetId => {
                            if away_set_id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("awaySetId"));
                            }
                            away_set_id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(RouteRun {
                    first_section: first_section__.unwrap_or_default(),
                    sections: sections__.unwrap_or_default(),
                    owner: owner__.unwrap_or_default(),
                    epoch: epoch__.unwrap_or_default(),
                    away_set_id: away_set_id__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.RouteRun", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for RouteSet {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.RouteSet", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("id", ToString::to_string(&self.id).as_str())?;
        }
        if true {
            struct_ser.serialize_field("name", &self.name)?;
        }
        if true {
            struct_ser.serialize_field("allocs", &self.allocs)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for RouteSet {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "id",
            "name",
            "allocs",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Id,
            Name,
            Allocs,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "id" => Ok(GeneratedField::Id),
                            "name" => Ok(GeneratedField::Name),
                            "allocs" => Ok(GeneratedField::Allocs),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = RouteSet;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.RouteSet")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<RouteSet, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut id__ = None;
                let mut name__ = None;
                let mut allocs__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Id => {
                            if id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("id"));
                            }
                            id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Name => {
                            if name__.is_some() {
                                return Err(serde::de::Error::duplicate_field("name"));
                            }
                            name__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Allocs => {
                            if allocs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("allocs"));
                            }
                            allocs__ = Some(map_.next_value()?);
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(RouteSet {
                    id: id__.unwrap_or_default(),
                    name: name__.unwrap_or_default(),
                    allocs: allocs__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.RouteSet", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for Routes {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.Routes", len)?;
        if true {
            struct_ser.serialize_field("set", &self.set)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("version", ToString::to_string(&self.version).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("baseVersion", ToString::to_string(&self.base_version).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("uidStart", ToString::to_string(&self.uid_start).as_str())?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("uidEnd", ToString::to_string(&self.uid_end).as_str())?;
        }
        if true {
            struct_ser.serialize_field("sectionSize", &self.section_size)?;
        }
        if true {
            struct_ser.serialize_field("nodes", &self.nodes)?;
        }
        if true {
            struct_ser.serialize_field("runs", &self.runs)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("setId", ToString::to_string(&self.set_id).as_str())?;
        }
        if true {
            struct_ser.serialize_field("sets", &self.sets)?;
        }
        if true {
            struct_ser.serialize_field("series", &self.series)?;
        }
        if true {
            struct_ser.serialize_field("laneRuns", &self.lane_runs)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for Routes {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "set",
            "version",
            "base_version",
            "baseVersion",
            "uid_start",
            "uidStart",
            "uid_end",
            "uidEnd",
            "section_size",
            "sectionSize",
            "nodes",
            "runs",
            "set_id",
            "setId",
            "sets",
            "series",
            "lane_runs",
            "laneRuns",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Set,
            Version,
            BaseVersion,
            UidStart,
            UidEnd,
            SectionSize,
            Nodes,
            Runs,
            SetId,
            Sets,
            Series,
            LaneRuns,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "set" => Ok(GeneratedField::Set),
                            "version" => Ok(GeneratedField::Version),
                            "baseVersion" | "base_version" => Ok(GeneratedField::BaseVersion),
                            "uidStart" | "uid_start" => Ok(GeneratedField::UidStart),
                            "uidEnd" | "uid_end" => Ok(GeneratedField::UidEnd),
                            "sectionSize" | "section_size" => Ok(GeneratedField::SectionSize),
                            "nodes" => Ok(GeneratedField::Nodes),
                            "runs" => Ok(GeneratedField::Runs),
                            "setId" | "set_id" => Ok(GeneratedField::SetId),
                            "sets" => Ok(GeneratedField::Sets),
                            "series" => Ok(GeneratedField::Series),
                            "laneRuns" | "lane_runs" => Ok(GeneratedField::LaneRuns),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = Routes;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.Routes")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<Routes, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut set__ = None;
                let mut version__ = None;
                let mut base_version__ = None;
                let mut uid_start__ = None;
                let mut uid_end__ = None;
                let mut section_size__ = None;
                let mut nodes__ = None;
                let mut runs__ = None;
                let mut set_id__ = None;
                let mut sets__ = None;
                let mut series__ = None;
                let mut lane_runs__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Set => {
                            if set__.is_some() {
                                return Err(serde::de::Error::duplicate_field("set"));
                            }
                            set__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Version => {
                            if version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("version"));
                            }
                            version__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::BaseVersion => {
                            if base_version__.is_some() {
                                return Err(serde::de::Error::duplicate_field("baseVersion"));
                            }
                            base_version__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::UidStart => {
                            if uid_start__.is_some() {
                                return Err(serde::de::Error::duplicate_field("uidStart"));
                            }
                            uid_start__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::UidEnd => {
                            if uid_end__.is_some() {
                                return Err(serde::de::Error::duplicate_field("uidEnd"));
                            }
                            uid_end__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::SectionSize => {
                            if section_size__.is_some() {
                                return Err(serde::de::Error::duplicate_field("sectionSize"));
                            }
                            section_size__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Nodes => {
                            if nodes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("nodes"));
                            }
                            nodes__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Runs => {
                            if runs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("runs"));
                            }
                            runs__ = Some(map_.next_value()?);
                        }
                        GeneratedField::SetId => {
                            if set_id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("setId"));
                            }
                            set_id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Sets => {
                            if sets__.is_some() {
                                return Err(serde::de::Error::duplicate_field("sets"));
                            }
                            sets__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Series => {
                            if series__.is_some() {
                                return Err(serde::de::Error::duplicate_field("series"));
                            }
                            series__ = Some(map_.next_value()?);
                        }
                        GeneratedField::LaneRuns => {
                            if lane_runs__.is_some() {
                                return Err(serde::de::Error::duplicate_field("laneRuns"));
                            }
                            lane_runs__ = Some(map_.next_value()?);
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Routes {
                    set: set__.unwrap_or_default(),
                    version: version__.unwrap_or_default(),
                    base_version: base_version__.unwrap_or_default(),
                    uid_start: uid_start__.unwrap_or_default(),
                    uid_end: uid_end__.unwrap_or_default(),
                    section_size: section_size__.unwrap_or_default(),
                    nodes: nodes__.unwrap_or_default(),
                    runs: runs__.unwrap_or_default(),
                    set_id: set_id__.unwrap_or_default(),
                    sets: sets__.unwrap_or_default(),
                    series: series__.unwrap_or_default(),
                    lane_runs: lane_runs__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.Routes", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for Series {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.Series", len)?;
        if true {
            struct_ser.serialize_field("name", &self.name)?;
        }
        if let Some(v) = self.shape.as_ref() {
            struct_ser.serialize_field("shape", v)?;
        }
        if let Some(v) = self.lanes.as_ref() {
            struct_ser.serialize_field("lanes", v)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("createdMs", ToString::to_string(&self.created_ms).as_str())?;
        }
        if true {
            struct_ser.serialize_field("retired", &self.retired)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for Series {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "name",
            "shape",
            "lanes",
            "created_ms",
            "createdMs",
            "retired",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Name,
            Shape,
            Lanes,
            CreatedMs,
            Retired,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "name" => Ok(GeneratedField::Name),
                            "shape" => Ok(GeneratedField::Shape),
                            "lanes" => Ok(GeneratedField::Lanes),
                            "createdMs" | "created_ms" => Ok(GeneratedField::CreatedMs),
                            "retired" => Ok(GeneratedField::Retired),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = Series;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.Series")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<Series, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut name__ = None;
                let mut shape__ = None;
                let mut lanes__ = None;
                let mut created_ms__ = None;
                let mut retired__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Name => {
                            if name__.is_some() {
                                return Err(serde::de::Error::duplicate_field("name"));
                            }
                            name__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Shape => {
                            if shape__.is_some() {
                                return Err(serde::de::Error::duplicate_field("shape"));
                            }
                            shape__ = map_.next_value()?;
                        }
                        GeneratedField::Lanes => {
                            if lanes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("lanes"));
                            }
                            lanes__ = map_.next_value()?;
                        }
                        GeneratedField::CreatedMs => {
                            if created_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("createdMs"));
                            }
                            created_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Retired => {
                            if retired__.is_some() {
                                return Err(serde::de::Error::duplicate_field("retired"));
                            }
                            retired__ = Some(map_.next_value()?);
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Series {
                    name: name__.unwrap_or_default(),
                    shape: shape__,
                    lanes: lanes__,
                    created_ms: created_ms__.unwrap_or_default(),
                    retired: retired__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.Series", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for Shape {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if self.kind.is_some() {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.Shape", len)?;
        if let Some(v) = self.kind.as_ref() {
            match v {
                shape::Kind::Counter(v) => {
                    struct_ser.serialize_field("counter", v)?;
                }
                shape::Kind::Timed(v) => {
                    struct_ser.serialize_field("timed", v)?;
                }
            }
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for Shape {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "counter",
            "timed",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Counter,
            Timed,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "counter" => Ok(GeneratedField::Counter),
                            "timed" => Ok(GeneratedField::Timed),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = Shape;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.Shape")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<Shape, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut kind__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Counter => {
                            if kind__.is_some() {
                                return Err(serde::de::Error::duplicate_field("counter"));
                            }
                            kind__ = map_.next_value::<::std::option::Option<_>>()?.map(shape::Kind::Counter)
;
                        }
                        GeneratedField::Timed => {
                            if kind__.is_some() {
                                return Err(serde::de::Error::duplicate_field("timed"));
                            }
                            kind__ = map_.next_value::<::std::option::Option<_>>()?.map(shape::Kind::Timed)
;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Shape {
                    kind: kind__,
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.Shape", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for StoredSeries {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.StoredSeries", len)?;
        if true {
            struct_ser.serialize_field("name", &self.name)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("shape", pbjson::private::base64::encode(&self.shape).as_str())?;
        }
        if let Some(v) = self.lanes.as_ref() {
            struct_ser.serialize_field("lanes", v)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("createdMs", ToString::to_string(&self.created_ms).as_str())?;
        }
        if true {
            struct_ser.serialize_field("retired", &self.retired)?;
        }
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("homeSetId", ToString::to_string(&self.home_set_id).as_str())?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for StoredSeries {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "name",
            "shape",
            "lanes",
            "created_ms",
            "createdMs",
            "retired",
            "home_set_id",
            "homeSetId",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Name,
            Shape,
            Lanes,
            CreatedMs,
            Retired,
            HomeSetId,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "name" => Ok(GeneratedField::Name),
                            "shape" => Ok(GeneratedField::Shape),
                            "lanes" => Ok(GeneratedField::Lanes),
                            "createdMs" | "created_ms" => Ok(GeneratedField::CreatedMs),
                            "retired" => Ok(GeneratedField::Retired),
                            "homeSetId" | "home_set_id" => Ok(GeneratedField::HomeSetId),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = StoredSeries;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.StoredSeries")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<StoredSeries, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut name__ = None;
                let mut shape__ = None;
                let mut lanes__ = None;
                let mut created_ms__ = None;
                let mut retired__ = None;
                let mut home_set_id__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::Name => {
                            if name__.is_some() {
                                return Err(serde::de::Error::duplicate_field("name"));
                            }
                            name__ = Some(map_.next_value()?);
                        }
                        GeneratedField::Shape => {
                            if shape__.is_some() {
                                return Err(serde::de::Error::duplicate_field("shape"));
                            }
                            shape__ = 
                                Some(map_.next_value::<::pbjson::private::BytesDeserialize<_>>()?.0)
                            ;
                        }
                        GeneratedField::Lanes => {
                            if lanes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("lanes"));
                            }
                            lanes__ = map_.next_value()?;
                        }
                        GeneratedField::CreatedMs => {
                            if created_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("createdMs"));
                            }
                            created_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Retired => {
                            if retired__.is_some() {
                                return Err(serde::de::Error::duplicate_field("retired"));
                            }
                            retired__ = Some(map_.next_value()?);
                        }
                        GeneratedField::HomeSetId => {
                            if home_set_id__.is_some() {
                                return Err(serde::de::Error::duplicate_field("homeSetId"));
                            }
                            home_set_id__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(StoredSeries {
                    name: name__.unwrap_or_default(),
                    shape: shape__.unwrap_or_default(),
                    lanes: lanes__,
                    created_ms: created_ms__.unwrap_or_default(),
                    retired: retired__.unwrap_or_default(),
                    home_set_id: home_set_id__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.StoredSeries", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for TickClock {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.TickClock", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epochMs", ToString::to_string(&self.epoch_ms).as_str())?;
        }
        if true {
            struct_ser.serialize_field("unitMs", &self.unit_ms)?;
        }
        if true {
            struct_ser.serialize_field("seqBits", &self.seq_bits)?;
        }
        if true {
            struct_ser.serialize_field("leadMs", &self.lead_ms)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for TickClock {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "epoch_ms",
            "epochMs",
            "unit_ms",
            "unitMs",
            "seq_bits",
            "seqBits",
            "lead_ms",
            "leadMs",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            EpochMs,
            UnitMs,
            SeqBits,
            LeadMs,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "epochMs" | "epoch_ms" => Ok(GeneratedField::EpochMs),
                            "unitMs" | "unit_ms" => Ok(GeneratedField::UnitMs),
                            "seqBits" | "seq_bits" => Ok(GeneratedField::SeqBits),
                            "leadMs" | "lead_ms" => Ok(GeneratedField::LeadMs),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = TickClock;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.TickClock")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<TickClock, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut epoch_ms__ = None;
                let mut unit_ms__ = None;
                let mut seq_bits__ = None;
                let mut lead_ms__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::EpochMs => {
                            if epoch_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epochMs"));
                            }
                            epoch_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::UnitMs => {
                            if unit_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("unitMs"));
                            }
                            unit_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::SeqBits => {
                            if seq_bits__.is_some() {
                                return Err(serde::de::Error::duplicate_field("seqBits"));
                            }
                            seq_bits__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::LeadMs => {
                            if lead_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("leadMs"));
                            }
                            lead_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(TickClock {
                    epoch_ms: epoch_ms__.unwrap_or_default(),
                    unit_ms: unit_ms__.unwrap_or_default(),
                    seq_bits: seq_bits__.unwrap_or_default(),
                    lead_ms: lead_ms__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.TickClock", FIELDS, GeneratedVisitor)
    }
}
impl serde::Serialize for TimedShape {
    #[allow(deprecated)]
    fn serialize<S>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        use serde::ser::SerializeStruct;
        let mut len = 0;
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        if true {
            len += 1;
        }
        let mut struct_ser = serializer.serialize_struct("seqsvr.v1.TimedShape", len)?;
        if true {
            #[allow(clippy::needless_borrow)]
            #[allow(clippy::needless_borrows_for_generic_args)]
            struct_ser.serialize_field("epochMs", ToString::to_string(&self.epoch_ms).as_str())?;
        }
        if true {
            struct_ser.serialize_field("unitMs", &self.unit_ms)?;
        }
        if true {
            struct_ser.serialize_field("timeBits", &self.time_bits)?;
        }
        if true {
            struct_ser.serialize_field("laneBits", &self.lane_bits)?;
        }
        if true {
            struct_ser.serialize_field("seqBits", &self.seq_bits)?;
        }
        if true {
            struct_ser.serialize_field("spread", &self.spread)?;
        }
        if true {
            struct_ser.serialize_field("namedLanes", &self.named_lanes)?;
        }
        if true {
            struct_ser.serialize_field("aheadMs", &self.ahead_ms)?;
        }
        struct_ser.end()
    }
}
impl<'de> serde::Deserialize<'de> for TimedShape {
    #[allow(deprecated)]
    fn deserialize<D>(deserializer: D) -> std::result::Result<Self, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        const FIELDS: &[&str] = &[
            "epoch_ms",
            "epochMs",
            "unit_ms",
            "unitMs",
            "time_bits",
            "timeBits",
            "lane_bits",
            "laneBits",
            "seq_bits",
            "seqBits",
            "spread",
            "named_lanes",
            "namedLanes",
            "ahead_ms",
            "aheadMs",
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            EpochMs,
            UnitMs,
            TimeBits,
            LaneBits,
            SeqBits,
            Spread,
            NamedLanes,
            AheadMs,
            __SkipField__,
        }
        impl<'de> serde::Deserialize<'de> for GeneratedField {
            fn deserialize<D>(deserializer: D) -> std::result::Result<GeneratedField, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                struct GeneratedVisitor;

                impl serde::de::Visitor<'_> for GeneratedVisitor {
                    type Value = GeneratedField;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "expected one of: {:?}", &FIELDS)
                    }

                    #[allow(unused_variables)]
                    fn visit_str<E>(self, value: &str) -> std::result::Result<GeneratedField, E>
                    where
                        E: serde::de::Error,
                    {
                        match value {
                            "epochMs" | "epoch_ms" => Ok(GeneratedField::EpochMs),
                            "unitMs" | "unit_ms" => Ok(GeneratedField::UnitMs),
                            "timeBits" | "time_bits" => Ok(GeneratedField::TimeBits),
                            "laneBits" | "lane_bits" => Ok(GeneratedField::LaneBits),
                            "seqBits" | "seq_bits" => Ok(GeneratedField::SeqBits),
                            "spread" => Ok(GeneratedField::Spread),
                            "namedLanes" | "named_lanes" => Ok(GeneratedField::NamedLanes),
                            "aheadMs" | "ahead_ms" => Ok(GeneratedField::AheadMs),
                            _ => Ok(GeneratedField::__SkipField__),
                        }
                    }
                }
                deserializer.deserialize_identifier(GeneratedVisitor)
            }
        }
        struct GeneratedVisitor;
        impl<'de> serde::de::Visitor<'de> for GeneratedVisitor {
            type Value = TimedShape;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("struct seqsvr.v1.TimedShape")
            }

            fn visit_map<V>(self, mut map_: V) -> std::result::Result<TimedShape, V::Error>
                where
                    V: serde::de::MapAccess<'de>,
            {
                let mut epoch_ms__ = None;
                let mut unit_ms__ = None;
                let mut time_bits__ = None;
                let mut lane_bits__ = None;
                let mut seq_bits__ = None;
                let mut spread__ = None;
                let mut named_lanes__ = None;
                let mut ahead_ms__ = None;
                while let Some(k) = map_.next_key()? {
                    match k {
                        GeneratedField::EpochMs => {
                            if epoch_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("epochMs"));
                            }
                            epoch_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::UnitMs => {
                            if unit_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("unitMs"));
                            }
                            unit_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::TimeBits => {
                            if time_bits__.is_some() {
                                return Err(serde::de::Error::duplicate_field("timeBits"));
                            }
                            time_bits__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::LaneBits => {
                            if lane_bits__.is_some() {
                                return Err(serde::de::Error::duplicate_field("laneBits"));
                            }
                            lane_bits__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::SeqBits => {
                            if seq_bits__.is_some() {
                                return Err(serde::de::Error::duplicate_field("seqBits"));
                            }
                            seq_bits__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::Spread => {
                            if spread__.is_some() {
                                return Err(serde::de::Error::duplicate_field("spread"));
                            }
                            spread__ = Some(map_.next_value()?);
                        }
                        GeneratedField::NamedLanes => {
                            if named_lanes__.is_some() {
                                return Err(serde::de::Error::duplicate_field("namedLanes"));
                            }
                            named_lanes__ = Some(map_.next_value()?);
                        }
                        GeneratedField::AheadMs => {
                            if ahead_ms__.is_some() {
                                return Err(serde::de::Error::duplicate_field("aheadMs"));
                            }
                            ahead_ms__ = 
                                Some(map_.next_value::<crate::json::Field<_>>()?.0)
                            ;
                        }
                        GeneratedField::__SkipField__ => {
                            let _ = map_.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(TimedShape {
                    epoch_ms: epoch_ms__.unwrap_or_default(),
                    unit_ms: unit_ms__.unwrap_or_default(),
                    time_bits: time_bits__.unwrap_or_default(),
                    lane_bits: lane_bits__.unwrap_or_default(),
                    seq_bits: seq_bits__.unwrap_or_default(),
                    spread: spread__.unwrap_or_default(),
                    named_lanes: named_lanes__.unwrap_or_default(),
                    ahead_ms: ahead_ms__.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.TimedShape", FIELDS, GeneratedVisitor)
    }
}
