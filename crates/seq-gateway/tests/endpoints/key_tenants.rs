//! Keys of tenants: which tenants may use keys, and the quotas of these tenants.

use seq_api::node_events::NodeEvents;
use seq_proto::status;
use seq_proto::v1;
use seq_proto::v1::key_owner_service_client::KeyOwnerServiceClient;
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_tenant::{Tenants, file, token};
use tonic::{Request, Response, Status};

use crate::twin::TestServer;

/// A server with one tenant, and the header with the token of the tenant.
struct Server {
    server: TestServer,
    bearer: String,
}

impl Server {
    async fn open(lines: &str) -> Server {
        let (token, hash) = token::generate("im").unwrap();
        let text = format!("[[tenant]]\nname = \"im\"\ntokens = [\"{hash}\"]\n{lines}");
        let tenants = Tenants::new("a1", file::parse(&text).unwrap(), &NodeEvents::default());
        let server = TestServer::open_to(tenants).await;
        server.twin.route(1);
        Server { server, bearer: format!("Bearer {}", *token) }
    }

    fn of<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.bearer.parse().unwrap());
        request
    }

    fn client(&self) -> KeyServiceClient<tonic::transport::Channel> {
        KeyServiceClient::new(self.server.channel.clone())
    }

    async fn next(&self, keyspace: &str, count: u32) -> Result<u64, String> {
        let (keyspace, key) = (keyspace.to_owned(), "conv:42".to_owned());
        let request = v1::NextKeyRequest { keyspace, key, count, ..v1::NextKeyRequest::default() };
        self.client().next(self.of(request)).await.map(|response| response.into_inner().value).map_err(reason)
    }

    async fn advance(&self, to: u64) -> Result<u64, String> {
        let (keyspace, key, to) = ("main".to_owned(), "conv:42".to_owned(), Some(to));
        let request = v1::AdvanceKeyRequest { keyspace, key, to, ..v1::AdvanceKeyRequest::default() };
        self.client().advance(self.of(request)).await.map(|response| response.into_inner().epoch).map_err(reason)
    }
}

fn reason(status: Status) -> String {
    status::reason(&status).unwrap_or_else(|| panic!("{status:?}"))
}

#[tokio::test]
async fn a_tenant_of_some_uids_has_no_keys() {
    const OTHER: &str = "OTHER_TENANTS_KEY";
    let server = Server::open("uids = [\"0..10\"]").await;
    assert_eq!(server.next("main", 1).await, Err(OTHER.to_owned()));
    assert_eq!(server.next("nothing", 1).await, Err(OTHER.to_owned()), "it does not learn which keyspaces exist");
    assert_eq!(server.advance(0).await, Err(OTHER.to_owned()));
    let read = v1::CurrentKeysRequest {
        keyspace: "main".to_owned(),
        keys: vec!["a".to_owned()],
        ..v1::CurrentKeysRequest::default()
    };
    assert_eq!(server.client().current_many(server.of(read)).await.map(drop).map_err(reason), Err(OTHER.to_owned()));
    assert!(server.server.twin.calls().is_empty());
    let all = Server::open("").await;
    assert_eq!((all.next("main", 1).await, all.next("main", 2).await), (Ok(1), Ok(3)));
    assert_eq!(all.next("nothing", 1).await, Err("UNKNOWN_KEYSPACE".to_owned()));
}

#[tokio::test]
async fn a_tenant_has_the_keys_of_its_prefixes() {
    const OTHER: &str = "OTHER_TENANTS_KEY";
    let server =
        Server::open("uids = [\"0..10\"]\nkeys = [\"main/conv:*\"]\nmax_advance = 100\nnumbers_per_s = 60").await;
    assert_eq!((server.next("main", 1).await, server.advance(5).await), (Ok(1), Ok(1)));
    assert_eq!(server.next("nothing", 1).await, Err(OTHER.to_owned()), "it does not learn which keyspaces exist");
    let one = |key: &[u8]| {
        let (keyspace, raw_key) = ("main".to_owned(), key.to_vec());
        let next =
            v1::NextKeyRequest { keyspace: keyspace.clone(), raw_key: raw_key.clone(), count: 1, ..Default::default() };
        let read = v1::CurrentKeyRequest { keyspace: keyspace.clone(), raw_key: raw_key.clone(), ..Default::default() };
        let raise = v1::AdvanceKeyRequest { keyspace, raw_key, to: Some(7), ..Default::default() };
        let (mut client, requests) = (server.client(), (server.of(next), server.of(read), server.of(raise)));
        async move {
            let next = client.next(requests.0).await.map(drop).map_err(reason);
            let read = client.current(requests.1).await.map(drop).map_err(reason);
            [next, read, client.advance(requests.2).await.map(drop).map_err(reason)]
        }
    };
    let calls = server.server.twin.calls().len();
    for key in [&b"user:1"[..], b"conv", b"\xffconv:1", b"Conv:1"] {
        assert_eq!(one(key).await, [0; 3].map(|_| Err(OTHER.to_owned())), "{key:?}");
    }
    assert_eq!(server.server.twin.calls().len(), calls, "no owner was asked");
    assert_eq!(one(b"conv:\xff").await, [0; 3].map(|_| Ok(())));

    // Of a batch, the other keys are refused alone, and take no part in the quotas of the tenant.
    let keys = ["user:1", "conv:a", "conv:a", "user:2", "conv:b"].map(str::to_owned).to_vec();
    let counts = vec![50, 1, 100, 50, 1];
    let many = v1::NextKeysRequest { keyspace: "main".to_owned(), keys: keys.clone(), counts, ..Default::default() };
    let response = server.client().next_many(server.of(many)).await.unwrap().into_inner();
    assert_eq!((response.values, response.prevs), (vec![0, 1, 0, 0, 1], vec![0; 5]));
    let refused =
        |errors: Vec<v1::ItemError>| errors.into_iter().map(|error| (error.index, error.reason)).collect::<Vec<_>>();
    let expected = [(0, OTHER), (2, "COUNT_ABOVE_QUOTA"), (3, OTHER)].map(|(index, reason)| (index, reason.to_owned()));
    assert_eq!(
        response.errors[0].message,
        "the tenant may not use key \"user:1\" of keyspace \"main\": `keys` in the tenants file are its keys"
    );
    assert_eq!(refused(response.errors), expected);
    let many = v1::CurrentKeysRequest { keyspace: "main".to_owned(), keys, ..Default::default() };
    let response = server.client().current_many(server.of(many)).await.unwrap().into_inner();
    assert_eq!(response.values, [0, 1, 1, 0, 1]);
    assert_eq!(refused(response.errors), [0, 3].map(|index| (index, OTHER.to_owned())));
    let others = vec!["user:1".to_owned()];
    let many = v1::CurrentKeysRequest { keyspace: "main".to_owned(), keys: others, ..Default::default() };
    let response = server.client().current_many(server.of(many)).await.unwrap().into_inner();
    assert_eq!(refused(response.errors), [(0, OTHER.to_owned())]);
}

#[tokio::test]
async fn keys_are_charged_as_uids_are() {
    let server = Server::open("max_count = 5\nmax_advance = 100").await;
    assert_eq!(server.next("main", 6).await, Err("COUNT_ABOVE_QUOTA".to_owned()));
    assert_eq!(server.next("main", 5).await, Ok(5));
    let many = v1::NextKeysRequest {
        keyspace: "main".to_owned(),
        keys: ["conv:42", "conv:43", "conv:42"].map(str::to_owned).to_vec(),
        counts: vec![1, 6, 2],
        ..v1::NextKeysRequest::default()
    };
    let response = server.client().next_many(server.of(many)).await.unwrap().into_inner();
    assert_eq!((response.values, response.prevs), (vec![6, 0, 8], vec![5, 0, 6]));
    let errors: Vec<_> = response.errors.iter().map(|error| (error.index, error.reason.as_str())).collect();
    assert_eq!(errors, [(1, "COUNT_ABOVE_QUOTA")]);
    assert_eq!(server.advance(109).await, Err("ADVANCE_TOO_FAR".to_owned()));
    assert_eq!((server.advance(108).await, server.next("main", 1).await), (Ok(1), Ok(109)));
}

/// Without TLS, a port takes hashes from everybody, as it takes forwarded calls for uids. They are checked
/// nevertheless.
#[tokio::test]
async fn hashes_are_taken_as_they_are_and_counted_as_forwarded() {
    let server = TestServer::open().await;
    server.twin.route(1);
    let mut client = KeyOwnerServiceClient::new(server.channel.clone());
    let request = v1::HashedKeysRequest {
        sections: vec![10],
        hashes: vec![2; 16],
        counts: vec![3],
        hops: 1,
        ..v1::HashedKeysRequest::default()
    };
    let response: Response<v1::NextManyResponse> = client.next_hashed(request.clone()).await.unwrap();
    assert_eq!(response.into_inner().values, [3]);
    let read = client.current_hashed(v1::HashedKeysRequest { counts: Vec::new(), ..request }).await.unwrap();
    assert_eq!(read.into_inner().values, [3]);
    let calls = server.twin.calls();
    assert!(calls.len() == 2 && calls.iter().all(|call| call.hops == 1), "{calls:?}");
}
