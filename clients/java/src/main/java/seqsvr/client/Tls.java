package seqsvr.client;

import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;

/**
 * The files of a client's credentials for TLS 1.3, as {@code seqsvr cert issue} writes them. They are read again when
 * they change, within a second, and new connections replace those with the former contents. A change that is not valid
 * is logged, and the former contents stay in use.
 *
 * @param ca certificates of the trusted authorities, {@code certs/ca.crt}. During a rotation the file has the old and
 *     the new ones
 * @param certificate the client's private key and certificate, {@code certs/client.NAME.pem}; empty for a client with a
 *     token
 * @param revocations list of revoked certificates, {@code certs/crl.pem}; empty for none. A file that does not exist is
 *     an empty list
 */
public record Tls(Path ca, Optional<Path> certificate, Optional<Path> revocations) {
    /** Checks that no field is null. */
    public Tls {
        Objects.requireNonNull(ca, "ca");
        Objects.requireNonNull(certificate, "certificate");
        Objects.requireNonNull(revocations, "revocations");
    }

    /** Returns the files of a client with a certificate. */
    public static Tls of(Path ca, Path certificate) {
        return new Tls(ca, Optional.of(certificate), Optional.empty());
    }

    /** Returns the file of a client without a certificate, which needs {@link SeqClient.Builder#token}. */
    public static Tls of(Path ca) {
        return new Tls(ca, Optional.empty(), Optional.empty());
    }

    /** Returns the same files with a list of revoked certificates. */
    public Tls withRevocations(Path crl) {
        return new Tls(ca, certificate, Optional.of(crl));
    }
}
