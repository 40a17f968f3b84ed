//! The series of a development cluster. They are created at the cluster's first start, so that ids are available
//! without a command of an operator.

use seq_command::plan::Mode;
use seq_command::store_client::StoreClient;
use seq_core::plan::Fingerprint;
use seq_ids::Preset;
use seq_proto::series::SeriesShape;
use seq_proto::v1::{CreateSeriesRequest, ListSectionsRequest};

/// Name and shape of each series. A fake cluster has the same series.
pub(crate) const SERIES: [(&str, &str); 3] = [("tweets", "snowflake"), ("media", "instagram"), ("orders", "counter")];

/// Creates the series of a new cluster.
pub(super) async fn create(store: &mut StoreClient) -> anyhow::Result<()> {
    for (name, shape) in SERIES {
        let Preset { shape, named_lanes, ahead_ms, .. } = *seq_ids::preset(shape).expect("the shape is a preset");
        let shape = SeriesShape { shape, named_lanes, ahead_ms };
        let request = CreateSeriesRequest {
            name: name.to_owned(),
            shape: Some((&shape).into()),
            ..CreateSeriesRequest::default()
        };
        store.create_series(&request, Mode::Make(Fingerprint::NONE)).await?;
    }
    Ok(())
}

/// Returns the number of all sections of a cluster, that is, of the sections of its uids and of the sections of its
/// series' lanes.
pub(super) async fn sections(store: &mut StoreClient) -> anyhow::Result<u32> {
    let (mut sections, mut first_section) = (0, 0);
    loop {
        let request = ListSectionsRequest { first_section, limit: 0, summarize: true };
        let page = store.sections(request).await?;
        sections += page.sections.iter().filter_map(|run| run.range.as_ref()).map(|range| range.sections).sum::<u32>();
        first_section = page.next_section;
        if first_section == 0 {
            return Ok(sections);
        }
    }
}
