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
        ];

        #[allow(clippy::enum_variant_names)]
        enum GeneratedField {
            Uid,
            Count,
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
                            "count" => Ok(GeneratedField::Count),
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
                })
            }
        }
        deserializer.deserialize_struct("seqsvr.v1.Routes", FIELDS, GeneratedVisitor)
    }
}
