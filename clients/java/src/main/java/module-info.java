/** A client of the sequence service seqsvr. */
module seqsvr.client {
    requires java.net.http;

    exports seqsvr.client;
}
