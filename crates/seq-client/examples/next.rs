//! Allocates the next number of each uid: `cargo run -p seq-client --example next -- http://127.0.0.1:7100 42 43`.

use std::time::Duration;

use seq_client::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("usage: next URL UID..")?;
    let uids: Vec<u64> = args.map(|uid| uid.parse()).collect::<Result<_, _>>()?;

    let client = Client::builder().seed(url).deadline(Duration::from_secs(2)).connect().await?;
    for (uid, result) in uids.iter().zip(client.next_many(&uids).await?) {
        match result {
            Ok(next) => println!("{uid}: {} after {}", next.value, next.prev),
            Err(error) if error.may_have_applied() => println!("{uid}: {error}; a number may be lost to a gap"),
            Err(error) => println!("{uid}: {error}"),
        }
    }
    Ok(())
}
