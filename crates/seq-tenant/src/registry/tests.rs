use seq_api::node_events::NodeEvents;

use super::*;
use crate::file;
use crate::token;

fn specs(token: &TokenHash, rest: &str) -> Vec<TenantSpec> {
    let text = format!("[[tenant]]\nname = \"im\"\ncertificates = [\"chat\"]\ntokens = [\"{token}\"]\n{rest}");
    file::parse(&text).unwrap()
}

fn peer(role: Role, name: &str) -> Peer {
    Peer::identified(Identity::of_cluster("c", role, name).unwrap())
}

fn reason(caller: Result<Caller, Status>) -> String {
    seq_proto::status::reason(&caller.unwrap_err()).unwrap()
}

#[tokio::test]
async fn a_caller_is_found_by_its_token_or_its_certificate() {
    let (secret, hash) = token::generate("im").unwrap();
    let tenants = Tenants::new("a1", specs(&hash, ""), &NodeEvents::default());
    let token = Token::parse(&secret);
    let is_im = |caller: Caller| matches!(caller, Caller::Tenant(tenant) if tenant.spec().name == "im");
    assert!(is_im(tenants.caller(None, token).unwrap()));
    assert!(is_im(tenants.caller(Some(&peer(Role::Client, "chat")), None).unwrap()));
    assert!(is_im(tenants.caller(Some(&peer(Role::Client, "other")), token).unwrap()), "the token decides");
    assert!(matches!(tenants.caller(Some(&peer(Role::Operator, "admin")), None), Ok(Caller::Unlimited)));
    assert_eq!(reason(tenants.caller(Some(&peer(Role::Client, "other")), None)), "NO_TENANT");
    assert_eq!(reason(tenants.caller(None, None)), "UNKNOWN_TOKEN");
    let wrong =
        [format!("{}x", &*secret), secret.replace("im.", "mi."), "im.".into(), secret[..secret.len() - 1].into()];
    for wrong in wrong {
        assert_eq!(
            reason(tenants.caller(Some(&peer(Role::Client, "chat")), Token::parse(&wrong))),
            "UNKNOWN_TOKEN",
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_proxy_is_of_the_tenant_that_names_it_and_else_unlimited() {
    let spec =
        |certificate: &str| file::parse(&format!("[[tenant]]\nname = \"im\"\ncertificates = [{certificate}]")).unwrap();
    let tenants = Tenants::new("a1", spec("\"proxy/p1\""), &NodeEvents::default());
    let is_limited = |caller: &Caller| matches!(caller, Caller::Tenant(tenant) if tenant.spec().name == "im");
    let mut session = tenants.session(Some(&peer(Role::Proxy, "p1")), None).unwrap();
    assert!(is_limited(session.caller()));
    assert!(!is_limited(&tenants.caller(Some(&peer(Role::Proxy, "p2")), None).unwrap()));
    assert_eq!(reason(tenants.caller(Some(&peer(Role::Client, "p1")), None)), "NO_TENANT", "a client of that name");
    // On open connections too.
    for (file, limited) in [("\"p1\"", false), ("\"p1\", \"proxy/p1\"", true)] {
        tenants.replace(spec(file));
        session.refresh().unwrap();
        assert_eq!(is_limited(session.caller()), limited, "{file}");
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_tenants_count_for_open_sessions_and_keep_unchanged_quotas() {
    let (secret, hash) = token::generate("im").unwrap();
    let rate = "calls_per_s = 1";
    let tenants = Tenants::new("a1", specs(&hash, rate), &NodeEvents::default());
    let mut session = tenants.session(None, Token::parse(&secret)).unwrap();
    assert_eq!([session.caller().admit_read().is_ok(), session.caller().admit_read().is_ok()], [true, false]);
    tenants.replace(specs(&hash, rate));
    session.refresh().unwrap();
    assert!(session.caller().admit_read().is_err(), "nothing has changed");
    tenants.replace(specs(&hash, "calls_per_s = 2"));
    session.refresh().unwrap();
    assert!(session.caller().admit_read().is_ok(), "a new quota is full");
    tenants.replace(specs(&token::generate("im").unwrap().1, rate));
    assert!(session.refresh().is_err(), "the token was replaced");
}

#[tokio::test]
async fn a_connection_counts_for_its_first_tenant_until_it_ends() {
    let (secret, hash) = token::generate("im").unwrap();
    let tenants = Tenants::new("a1", specs(&hash, "connections = 1"), &NodeEvents::default());
    let (first, second) = (peer(Role::Client, "chat"), peer(Role::Client, "chat"));
    for _ in 0..3 {
        tenants.caller(Some(&first), None).unwrap();
    }
    assert_eq!(reason(tenants.caller(Some(&second), Token::parse(&secret))), "TOO_MANY_CONNECTIONS");
    drop(first);
    tenants.caller(Some(&second), None).unwrap();
}
